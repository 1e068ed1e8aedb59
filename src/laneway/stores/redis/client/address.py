"""The address of a Redis or Valkey store, parsed and checked once.

```
redis://user:password@host:6379/0        rediss:// with TLS; valkey://, valkeys:// mean the same
unix:///run/valkey.sock?db=0             also unix://user:password@/run/valkey.sock
redis+cluster://host:port,host:port      any nodes of the cluster; rediss+cluster:// with TLS
redis+sentinel://host:port,host:port/service/0
```

Messages about an address never quote the part that has the password, not even of a misspelt address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from laneway.core.common.addresses import scheme_shown, without_password
from laneway.errors import BadURL, did_you_mean

PORT, SENTINEL_PORT = 6379, 26379
SINGLE, UNIX, CLUSTER, SENTINEL = "single", "unix", "cluster", "sentinel"
KINDS = {
    f"{word}{kind_word}": (kind, secure)
    for word, secure in (("redis", False), ("valkey", False), ("rediss", True), ("valkeys", True))
    for kind_word, kind in (("", SINGLE), ("+cluster", CLUSTER), ("+sentinel", SENTINEL))
} | dict.fromkeys(("unix", "redis+unix", "valkey+unix"), (UNIX, False))
TLS = frozenset(
    {"ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_keyfile_password"}
    | {"ssl_check_hostname"}
)
PARAMETERS = frozenset({"namespace", "timeout", "db", "sentinel_username", "sentinel_password"}) | TLS

REQUIRED = ("none", "optional", "required")

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NODE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:,\s]+)?(?::(?P<port>\d{1,5}))?")

Node = tuple[str, int]


class _Place(NamedTuple):
    """The part of an address that names the server."""

    nodes: tuple[Node, ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A checked address. `shown` has no password; `tls` are its `ssl_` parameters, None without TLS."""

    kind: str
    shown: str
    nodes: tuple[Node, ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_login: tuple[str | None, str | None] = field(default=(None, None), repr=False)
    tls: dict[str, str] | None = field(default=None, repr=False)
    namespace: str = "default"
    timeout: float = 5.0

    @property
    def prefix(self) -> str:
        """The prefix of every key; its braces keep a namespace on one node of a cluster."""
        return f"laneway:{{{self.namespace}}}"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse an address. Raises BadURL, in one line without the password."""
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in KINDS:
            known = "a server is redis://host, or redis+cluster:// or redis+sentinel://"
            raise BadURL(f"{scheme_shown(url)} is not known; {known}")
        kind, secure = KINDS[scheme]
        login, at, rest = rest.rpartition("@")
        _refuse_ambiguous(scheme, login)
        place, _, query = rest.partition("?")
        where, slash, path = place.partition("/")
        words = _parameters(scheme, query, secure=secure, kind=kind)
        username, colon, password = login.partition(":")
        return cls(
            kind=kind,
            shown=without_password(f"{scheme}://{place}"),
            **_place(scheme, kind, where, slash + path, words)._asdict(),
            username=unquote(username) or None,
            password=unquote(password) if at and colon else None,
            sentinel_login=(words.get("sentinel_username"), words.get("sentinel_password")),
            tls=_tls(words) if secure else None,
            namespace=_namespace(words.get("namespace", "default")),
            timeout=_timeout(words.get("timeout", "5")),
        )


def _refuse_ambiguous(scheme: str, login: str) -> None:
    if any(sign in login for sign in "/?#@"):
        raise BadURL(f"{scheme}://: write / ? # @ as %2F %3F %23 %40 in user, password and parameters")


def _place(scheme: str, kind: str, where: str, path: str, words: dict[str, str]) -> _Place:
    if kind == UNIX:
        if where or len(path) < 2:
            raise BadURL(f"{scheme}:// names no socket; write {scheme}:///path/to/server.sock")
        return _Place(path=unquote(path), db=_database(scheme, "", words))
    nodes = _nodes(scheme, where, SENTINEL_PORT if kind == SENTINEL else PORT)
    if kind == SENTINEL:
        service, _, number = path[1:].partition("/")
        if not service:
            raise BadURL(f"{scheme}:// names no service; write {scheme}://host:{SENTINEL_PORT}/service/0")
        return _Place(nodes, service=unquote(service), db=_database(scheme, number, words))
    if kind == SINGLE and len(nodes) > 1:
        raise BadURL(f"{scheme}:// names one server; for several write {scheme}+cluster:// or {scheme}+sentinel://")
    db = _database(scheme, path[1:], words)
    if kind == CLUSTER and db:
        raise BadURL(f"a cluster has database 0 only, not {db}; ?namespace= keeps stores apart")
    return _Place(nodes, db=db)


def _nodes(scheme: str, where: str, port: int) -> tuple[Node, ...]:
    nodes = []
    for part in where.split(",") if where else ["localhost"]:
        found = _NODE.fullmatch(part)
        if found is None or not part:
            raise BadURL(f"{scheme}://: a server is written host:port, with a number from 1 to 65535 as its port")
        number = int(found["port"] or port)
        if not 0 < number < 2**16:
            raise BadURL(f"{scheme}://: a port is a number from 1 to 65535")
        nodes.append(((found["host"] or "localhost").strip("[]"), number))
    return tuple(nodes)


def _database(scheme: str, path: str, words: dict[str, str]) -> int:
    text = path.strip("/") or words.get("db", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadURL(f"{scheme}://: the database is a number, such as /0, not {text!r}")
    return int(text)


def _parameters(scheme: str, query: str, *, secure: bool, kind: str) -> dict[str, str]:
    words = dict(parse_qsl(query, keep_blank_values=True))
    for name in words:
        if name not in PARAMETERS:
            near = did_you_mean(name, PARAMETERS) or f"; it can be {', '.join(sorted(PARAMETERS))}"
            raise BadURL(f"{scheme}://: unknown parameter {name!r}{near}")
        if name in TLS and not secure:
            raise BadURL(f"{scheme}://: {name} is for TLS; write {_secure(scheme)}://")
        if name.startswith("sentinel_") and kind != SENTINEL:
            raise BadURL(f"{scheme}://: {name} is for {scheme.partition('+')[0]}+sentinel://")
    return words


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise BadURL(f"namespace {text!r}: it has letters, digits, - _ and . only, and at most 100 of them")
    return text


def _timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 3600:
        raise BadURL(f"timeout {text!r}: it is a number of seconds, from above 0 to 3600")
    return seconds


def _tls(words: dict[str, str]) -> dict[str, str]:
    required = words.get("ssl_cert_reqs", "required")
    if required not in REQUIRED:
        raise BadURL(f"ssl_cert_reqs {required!r}: it is none, optional or required")
    return {name: value for name, value in words.items() if name in TLS}


def _secure(scheme: str) -> str:
    word, plus, kind = scheme.partition("+")
    return "rediss" if kind == "unix" or word == "unix" else f"{word}s{plus}{kind}"
