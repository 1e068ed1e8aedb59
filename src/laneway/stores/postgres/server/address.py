"""The address of a PostgreSQL store, parsed and checked once.

```
postgresql://user:password@host:5432/database?schema=laneway     postgres:// means the same
postgresql://host1:5432,host2:5432/database                       the host that accepts writes
postgresql:///database?host=/run/postgresql                       through a socket
```

`schema` (laneway), `timeout` (5 seconds) and `pooled` are laneway's own parameters. All others (`sslmode`,
`connect_timeout`, `application_name`, ...) are passed to libpq unchanged. No message shows a password.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from laneway.errors import BadURL, did_you_mean

SCHEMES = ("postgresql", "postgres")
OURS = ("schema", "timeout", "pooled")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_UNREADABLE = (
    "postgresql://: this address cannot be read; it is postgresql://user:password@host:5432/database, with"
    " / ? # @ : written as %2F %3F %23 %40 %3A in user and password"
)
_YES, _NO = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A checked address. `shown` is its form for messages, without the password.

    `pooled` is for a pooler that assigns a connection per transaction: laneway then prepares no statements, and workers
    poll once a second because notifications do not reach them.
    """

    shown: str
    conninfo: str = field(repr=False)
    schema: str = "laneway"
    timeout: float = 5.0
    pooled: bool = False

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse an address. Raises BadURL, in one line without the password."""
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in SCHEMES:
            raise BadURL("a PostgreSQL store is written postgresql://user:password@host/database")
        place, _, query = rest.partition("?")
        try:
            return cls._read(place, query)
        except BadURL:
            # A password may contain a ? that is not escaped: the error would show the rest of it as a parameter.
            if "@" in query:
                raise BadURL(_UNREADABLE) from None
            raise

    @classmethod
    def _read(cls, place: str, query: str) -> Address:
        words = dict(parse_qsl(query, keep_blank_values=True))
        own = {name: words.pop(name) for name in OURS if name in words}
        _refuse_unknown(words)
        rewritten = f"postgresql://{place}" + (f"?{urlencode(words, quote_via=quote)}" if words else "")
        schema = _schema(own.get("schema", "laneway"))
        parts = _parts(place, rewritten)
        if "," in str(parts.get("host", "")) and "target_session_attrs" not in parts:
            rewritten += f"{'&' if words else '?'}target_session_attrs=read-write"
        return cls(
            shown=_shown(parts, schema),
            conninfo=rewritten,
            schema=schema,
            timeout=_timeout(own.get("timeout", "5")),
            pooled=_flag("pooled", own.get("pooled", "no")),
        )

    @property
    def lock(self) -> int:
        """The number of the advisory lock that a writer holds."""
        return _number(f"laneway write {self.schema}")

    @property
    def migration_lock(self) -> int:
        """The number of the advisory lock that a migration holds."""
        return _number(f"laneway migrate {self.schema}")

    @property
    def news(self) -> str:
        """The channel on which writers announce new events."""
        return f"laneway_{self.schema}"


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _parts(place: str, url: str) -> Mapping[str, object]:
    """Return the parts that libpq finds in the address. Its own error is not shown: it may quote the password."""
    who_and_where, _, database = place.partition("/")
    # libpq would take a part of the password for a host or a database.
    if who_and_where.count("@") > 1 or "@" in database:
        raise BadURL(_UNREADABLE)
    try:
        parts: dict[str, object] = dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        raise BadURL(_UNREADABLE) from None
    if not all(port.isdecimal() for port in str(parts.get("port") or 0).split(",") if port):
        raise BadURL(_UNREADABLE)
    return parts


def _refuse_unknown(words: dict[str, str]) -> None:
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    for name in words:
        if name not in known and name != "ssl":
            near = did_you_mean(name, [*known, *OURS]) or f"; laneway's own are {', '.join(OURS)}"
            raise BadURL(f"postgresql://: unknown parameter {name!r}{near}")


def _shown(parts: Mapping[str, object], schema: str) -> str:
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").split(",")
    ports = str(parts.get("port") or "").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)  # as in libpq, one port holds for all hosts
    pairs = zip(hosts, ports, strict=True)
    where = ",".join(f"{host}:{port}" if port and not host.startswith("/") else host for host, port in pairs)
    name = parts.get("dbname") or parts.get("user") or ""
    more = "" if schema == "laneway" else f"?schema={schema}"
    return f"postgresql://{where}/{name}{more}"


def _schema(text: str) -> str:
    if not _SCHEMA.fullmatch(text) or text.startswith("pg_"):
        raise BadURL(
            f"schema {text!r}: it begins with a small letter, though not with pg_, and has small letters, digits and _"
            " only, 48 of them at most"
        )
    return text


def _timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 3600:
        raise BadURL(f"timeout {text!r}: it is a number of seconds, from above 0 to 3600")
    return seconds


def _flag(name: str, text: str) -> bool:
    if text not in _YES | _NO:
        raise BadURL(f"{name} {text!r}: it is yes or no")
    return text in _YES
