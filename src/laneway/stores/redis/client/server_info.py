"""What an operator should know about a server: what a restart keeps, what it deletes when full, how full it is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.errors import StoreError
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.errors import eviction_warning, is_too_old, needed, product_of

NEARLY_FULL = 0.8  # of maxmemory
UNKNOWN = "could not be read"


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A server by its own words; a field is None if this user may not read it."""

    product: str
    version: str
    mode: str | None = None  # standalone, cluster
    role: str | None = None  # master, slave
    replicas: int = 0
    saves: str | None = None  # when snapshots are made: "3600 1 300 100"; empty if none are
    appendonly: bool | None = None
    appendfsync: str | None = None  # always, everysec, no
    failing: tuple[str, ...] = ()  # files that it could not write the last time
    used_memory: int | None = None
    maxmemory: int | None = None  # 0 if there is no limit
    policy: str | None = None


async def read_server_info(client: RedisClient) -> ServerInfo:
    """Read what the server tells about itself. Managed servers forbid CONFIG, some also INFO."""
    about = await client.info()
    product, version = product_of(about)
    return ServerInfo(
        product=product,
        version=version,
        mode=about.get("server_mode") or about.get("redis_mode"),
        role=about.get("role"),
        replicas=int(about.get("connected_slaves", 0)),
        saves=await _setting(client, "save"),
        appendonly=_flag(about, "aof_enabled"),
        appendfsync=await _setting(client, "appendfsync"),
        failing=_failing(about),
        used_memory=_number(about, "used_memory"),
        maxmemory=_number(about, "maxmemory"),
        policy=about.get("maxmemory_policy"),
    )


def persistence(server: ServerInfo) -> str:
    """Return what a restart of the server keeps, as the end of a sentence "A restart keeps ..."."""
    if server.appendonly:
        return _APPENDED.get(server.appendfsync, f"{_APPENDED['no']} (its appendfsync {UNKNOWN})")
    if server.saves:
        return (
            "everything if it is shut down in order; if it is killed, only what was there at the last snapshot"
            f" (save {server.saves})"
        )
    if server.appendonly is None:
        return f"what its operator has arranged; its persistence {UNKNOWN}"
    if server.saves is None:
        return f"at most the last snapshot: there is no append-only file, and when snapshots are made {UNKNOWN}"
    return "nothing: it writes neither an append-only file nor snapshots"


def warnings(server: ServerInfo) -> list[str]:
    """Return what an operator should change, most urgent first."""
    found = (_too_old(server), _not_persistent(server), _evicting(server), _nearly_full(server), *_failures(server))
    return [text for text in found if text]


_APPENDED: Mapping[str | None, str] = {
    "always": "everything that was answered, also when the machine loses power (appendfsync always)",
    "everysec": (
        "everything if its process dies; if the machine does, all but the last second or two (appendfsync everysec)"
    ),
    "no": "everything if its process dies; if the machine does, all but what was not yet on disk, often 30 seconds",
}


def _too_old(server: ServerInfo) -> str:
    if not is_too_old(server.product, server.version):
        return ""
    return f"{server.product} {server.version} is too old; laneway needs {needed()}"


def _not_persistent(server: ServerInfo) -> str:
    if server.appendonly is False and server.saves == "":
        return "nothing is kept over a restart, so all runs are lost with it; set appendonly yes"
    if server.appendonly is False:
        return "a crash loses what came after the last snapshot; set appendonly yes"
    return ""


def _evicting(server: ServerInfo) -> str:
    return eviction_warning({"maxmemory_policy": server.policy} if server.policy else {})


def _nearly_full(server: ServerInfo) -> str:
    if not server.maxmemory or server.used_memory is None or server.used_memory < NEARLY_FULL * server.maxmemory:
        return ""
    share = server.used_memory / server.maxmemory
    return f"{share:.0%} of maxmemory is used; when it is full, new runs are refused"


def _failures(server: ServerInfo) -> list[str]:
    return [f"the server could not write its {what} the last time; its log says why" for what in server.failing]


def _failing(about: Mapping[str, str]) -> tuple[str, ...]:
    known = {"rdb_last_bgsave_status": "snapshot", "aof_last_write_status": "append-only file"}
    return tuple(what for name, what in known.items() if about.get(name, "ok") != "ok")


async def _setting(client: RedisClient, name: str) -> str | None:
    try:
        found = await client.command("CONFIG", "GET", name)
    except StoreError:
        return None
    return found[1].decode() if len(found) == 2 else None


def _flag(about: Mapping[str, str], name: str) -> bool | None:
    return about[name] == "1" if name in about else None


def _number(about: Mapping[str, str], name: str) -> int | None:
    return int(about[name]) if name in about else None
