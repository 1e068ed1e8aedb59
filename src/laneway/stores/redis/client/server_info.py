"""What to know of a server before trusting it with runs: what it keeps, what it throws away, how full it is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.errors import StoreError
from laneway.stores.redis.client.client import Link
from laneway.stores.redis.client.errors import eviction, is_too_old, needed, product_of

NEARLY_FULL = 0.8  # of maxmemory
UNKNOWN = "could not be read"


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it describes itself; what is None it does not let us read."""

    product: str
    version: str
    mode: str | None = None  # standalone, cluster
    role: str | None = None  # master, slave
    replicas: int = 0
    saves: str | None = None  # when snapshots are made: "3600 1 300 100"; empty where none are
    appendonly: bool | None = None
    appendfsync: str | None = None  # always, everysec, no
    failing: tuple[str, ...] = ()  # what it could not write to disk the last time
    used_memory: int | None = None
    maxmemory: int | None = None  # 0 where there is no limit
    policy: str | None = None


async def server_facts(link: Link) -> ServerFacts:
    """Ask the server. Managed servers forbid CONFIG, some also INFO: what cannot be read is left out."""
    about = await link.info()
    product, version = product_of(about)
    return ServerFacts(
        product=product,
        version=version,
        mode=about.get("server_mode") or about.get("redis_mode"),
        role=about.get("role"),
        replicas=int(about.get("connected_slaves", 0)),
        saves=await _setting(link, "save"),
        appendonly=_flag(about, "aof_enabled"),
        appendfsync=await _setting(link, "appendfsync"),
        failing=_failing(about),
        used_memory=_number(about, "used_memory"),
        maxmemory=_number(about, "maxmemory"),
        policy=about.get("maxmemory_policy"),
    )


def what_is_kept(facts: ServerFacts) -> str:
    """Say what a restart of the server keeps, as the end of a sentence that begins so."""
    if facts.appendonly:
        return _APPENDED.get(facts.appendfsync, f"{_APPENDED['no']} (its appendfsync {UNKNOWN})")
    if facts.saves:
        return (
            "everything if it is shut down in order; if it is killed, only what was there at the last snapshot"
            f" (save {facts.saves})"
        )
    if facts.appendonly is None:
        return f"what whoever runs it has arranged; its persistence {UNKNOWN}"
    if facts.saves is None:
        return f"at most the last snapshot: there is no append-only file, and when snapshots are made {UNKNOWN}"
    return "nothing: it writes neither an append-only file nor snapshots"


def warnings(facts: ServerFacts) -> list[str]:
    """Return what an operator should change, most urgent first."""
    return [text for text in (_old(facts), _kept(facts), _evicted(facts), _full(facts), *_failures(facts)) if text]


_APPENDED: Mapping[str | None, str] = {
    "always": "everything that was answered, also when the machine loses power (appendfsync always)",
    "everysec": (
        "everything if its process dies; if the machine does, all but the last second or two (appendfsync everysec)"
    ),
    "no": "everything if its process dies; if the machine does, all but what was not yet on disk, often 30 seconds",
}


def _old(facts: ServerFacts) -> str:
    if not is_too_old(facts.product, facts.version):
        return ""
    return f"{facts.product} {facts.version} is too old; laneway needs {needed()}"


def _kept(facts: ServerFacts) -> str:
    if facts.appendonly is False and facts.saves == "":
        return "nothing is kept over a restart, so all runs are lost with it; set appendonly yes"
    if facts.appendonly is False:
        return "a crash loses what came after the last snapshot; set appendonly yes"
    return ""


def _evicted(facts: ServerFacts) -> str:
    return eviction({"maxmemory_policy": facts.policy} if facts.policy else {})


def _full(facts: ServerFacts) -> str:
    if not facts.maxmemory or facts.used_memory is None or facts.used_memory < NEARLY_FULL * facts.maxmemory:
        return ""
    share = facts.used_memory / facts.maxmemory
    return f"{share:.0%} of maxmemory is used; when it is full, new runs are refused"


def _failures(facts: ServerFacts) -> list[str]:
    return [f"the server could not write its {what} the last time; its log says why" for what in facts.failing]


def _failing(about: Mapping[str, str]) -> tuple[str, ...]:
    known = {"rdb_last_bgsave_status": "snapshot", "aof_last_write_status": "append-only file"}
    return tuple(what for name, what in known.items() if about.get(name, "ok") != "ok")


async def _setting(link: Link, name: str) -> str | None:
    try:
        found = await link.command("CONFIG", "GET", name)
    except StoreError:
        return None
    return found[1].decode() if len(found) == 2 else None


def _flag(about: Mapping[str, str], name: str) -> bool | None:
    return about[name] == "1" if name in about else None


def _number(about: Mapping[str, str], name: str) -> int | None:
    return int(about[name]) if name in about else None
