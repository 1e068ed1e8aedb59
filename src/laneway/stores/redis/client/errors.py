"""The server's errors as laneway's errors: one line each, never with a password."""

from __future__ import annotations

import re
from collections.abc import Mapping

from laneway.errors import BadURL, LanewayError, NotAStore, StoreError, StoreUnavailable
from laneway.stores.redis.client.address import CLUSTER, Address

REFUSAL = "LANEWAY "
OLDEST = {"Redis": (6, 2), "Valkey": (7, 2)}
NO_EVICTION = "noeviction"
RETRYABLE = frozenset({"LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "BUSY", "ASK", "READONLY", "MOVED"})

# Servers before 7.0 wrap the errors of redis.call inside a script.
_INSIDE = re.compile(r"\b(OOM|WRONGTYPE|READONLY|NOPERM|MISCONF|NOREPLICAS|MASTERDOWN|LOADING) ")


class Refusal(Exception):
    """A script refused a call by `redis.error_reply("LANEWAY ...")`; `text` is what follows that word."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def code_of(reply: str) -> str:
    """Return the word of an error reply that names its kind.

    >>> code_of("ERR Error running script (call to f_0): @user_script:1: -OOM command not allowed")
    'OOM'
    """
    code = reply.partition(" ")[0]
    inside = _INSIDE.search(reply) if code == "ERR" else None
    return inside[1] if inside else code


def error_for(reply: str, address: Address, place: str = "", *, maybe_done: bool = False) -> LanewayError | Refusal:
    """Return the error to raise for an error reply; `place` is where in a script it happened."""
    if reply.startswith(REFUSAL):
        return Refusal(reply.removeprefix(REFUSAL))
    code, at = code_of(reply), address.shown
    if code in _LOGIN or "without any password" in reply or "invalid password" in reply:
        return BadURL(f"{at} {_login(code, address)}")
    if code == "MOVED" and address.kind != CLUSTER:
        return BadURL(f"{at} is a node of a cluster; write redis+cluster:// instead")
    if code == "WRONGTYPE":
        return NotAStore(
            f"{at}: a key of another type is in the way; those that begin with {address.prefix}: are laneway's"
        )
    if code == "NOPERM":
        return StoreError(f"{at}: this user may not do what laneway does ({_short(reply)})")
    for sign, text in _DATABASE:
        if sign in reply:
            return BadURL(f"{at}: {text.format(db=address.db)}")
    known = _UNAVAILABLE.get(code)
    if known is not None:
        return StoreUnavailable(f"{at} {known}", maybe_done=maybe_done)
    if "max number of clients" in reply or code == "DENIED":
        return StoreUnavailable(f"{at} takes no more connections ({_short(reply)})", maybe_done=maybe_done)
    where = f" at {place}" if place else ""
    return StoreError(f"{at} could not do a call{where}: {_short(reply)}")


def refuse_old(about: Mapping[str, str], address: Address) -> None:
    """Raise StoreError if laneway needs a newer server than this one, by the fields of `INFO`."""
    product, version = product_of(about)
    if is_too_old(product, version):
        raise StoreError(f"{address.shown} is {product} {version}, which is too old; laneway needs {needed()}")


def is_too_old(product: str, version: str) -> bool:
    """Tell whether laneway needs a newer server; a version that cannot be parsed is accepted."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return bool(found) and found < OLDEST[product]


def has_functions(about: Mapping[str, str]) -> bool:
    """Tell whether the server has libraries of functions. Valkey reports a compatible Redis version, too."""
    return int(about.get("redis_version", "0").partition(".")[0]) >= 7


def needed() -> str:
    """Return which servers are new enough, in words."""
    return " or ".join(f"{name} {'.'.join(map(str, oldest))}" for name, oldest in OLDEST.items())


def eviction_warning(about: Mapping[str, str]) -> str:
    """Return a warning if the server deletes keys when its memory is full, else an empty text."""
    policy = about.get("maxmemory_policy", NO_EVICTION)
    if policy == NO_EVICTION:
        return ""
    return f"when its memory is full, the server deletes runs (maxmemory-policy {policy}); set {NO_EVICTION}"


def product_of(about: Mapping[str, str]) -> tuple[str, str]:
    """Return the product's name and version. Valkey reports a compatible Redis version, too."""
    if "valkey_version" in about:
        return "Valkey", about["valkey_version"]
    return "Redis", about.get("redis_version", "")


_LOGIN = {"NOAUTH", "WRONGPASS", "NOPASS"}
_DATABASE = (
    ("DB index is out of range", "there is no database {db}; the server has fewer (16 unless it is told otherwise)"),
    ("invalid DB index", "there is no database {db}"),
    ("SELECT is not allowed in cluster mode", "a cluster has database 0 only, not {db}"),
    ("cluster support disabled", "this server is no cluster; write redis:// instead of redis+cluster://"),
)
_UNAVAILABLE = {
    "OOM": "is out of memory (maxmemory): it takes no new runs until some are done or it gets more",
    "READONLY": "is a replica, which cannot be written to",
    "MISCONF": "refuses to write because it cannot save its data to disk; its log says why",
    "NOREPLICAS": "refuses to write because it has too few replicas",
    "LOADING": "is still loading its data",
    "MASTERDOWN": "is a replica that has lost its master",
    "CLUSTERDOWN": "is a cluster of which a part is down",
    "TRYAGAIN": "is moving our keys to another node",
    "ASK": "is moving our keys to another node",
    "MOVED": "says that our keys are on another node, which says the opposite",
    "BUSY": "is busy with another client's script",
}


def _login(code: str, address: Address) -> str:
    if address.password is None:
        return "wants a user or password: redis://user:password@host"
    more = "" if code == "WRONGPASS" else "; it may want none, or a user too"
    return f"refuses this user and password{more}"


def _short(reply: str) -> str:
    line = " ".join(reply.split())
    return line if len(line) <= 300 else f"{line[:300]}..."
