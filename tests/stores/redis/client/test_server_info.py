"""What is reported about a server: what a restart keeps, and what is dangerous."""

from __future__ import annotations

import logging

import msgspec
import pytest

from laneway.stores.redis.client.server_info import ServerInfo, persistence, read_server_info, warnings
from laneway.testing.servers import valkey_server
from tests.stores.redis.tools import opened_client

FINE = ServerInfo(
    product="Valkey",
    version="9.1.2",
    saves="",
    appendonly=True,
    appendfsync="everysec",
    used_memory=10,
    maxmemory=100,
    policy="noeviction",
)


async def test_a_server_describes_itself() -> None:
    config = {"appendfsync": "always", "maxmemory": "100mb", "save": "3600 1 300 100"}
    with valkey_server(appendonly=True, config=config) as server:
        async with opened_client(server.url) as client:
            facts = await read_server_info(client)

    about = (facts.mode, facts.role, facts.replicas, facts.policy, facts.failing)
    assert about == ("standalone", "master", 0, "noeviction", ())
    assert (facts.saves, facts.appendonly, facts.appendfsync) == ("3600 1 300 100", True, "always")
    assert facts.maxmemory == 100 * 2**20
    assert facts.used_memory is not None
    assert 0 < facts.used_memory < facts.maxmemory
    assert facts.version[0].isdigit()
    assert warnings(facts) == []


async def test_what_may_not_be_read_is_left_out() -> None:
    with valkey_server() as server:
        for name, forbidden in (("ann", ["-config"]), ("bob", ["-config", "-info"])):
            server.command("ACL", "SETUSER", name, "on", ">pw", "~*", "&*", "+@all", *forbidden)
        async with opened_client(f"redis://ann:pw@127.0.0.1:{server.port}") as client:
            some = await read_server_info(client)
        async with opened_client(f"redis://bob:pw@127.0.0.1:{server.port}") as client:
            none = await read_server_info(client)

    assert (some.saves, some.appendfsync, some.appendonly) == (None, None, False)
    assert persistence(some).startswith("at most the last snapshot")
    assert none == ServerInfo(product="Redis", version="")
    assert persistence(none) == "what its operator has arranged; its persistence could not be read"
    assert warnings(none) == []


@pytest.mark.parametrize(
    ("change", "begins", "ends"),
    [
        ({"appendfsync": "always"}, "everything that was answered", "(appendfsync always)"),
        ({}, "everything if its process dies", "all but the last second or two (appendfsync everysec)"),
        ({"appendfsync": "no"}, "everything if its process dies", "not yet on disk, often 30 seconds"),
        ({"appendfsync": None}, "everything if its process dies", "(its appendfsync could not be read)"),
        ({"appendonly": False, "saves": "3600 1"}, "everything if it is shut down in order", "(save 3600 1)"),
        ({"appendonly": False}, "nothing: ", "neither an append-only file nor snapshots"),
    ],
)
def test_what_a_restart_keeps_is_said_in_plain_words(change: dict[str, object], begins: str, ends: str) -> None:
    said = persistence(msgspec.structs.replace(FINE, **change))

    assert said.startswith(begins)
    assert said.endswith(ends)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"product": "Redis", "version": "6.0.9"}, "Redis 6.0.9 is too old; laneway needs Redis 6.2 or Valkey 7.2"),
        (
            {"appendonly": False},
            "nothing is kept over a restart, so all runs are lost with it; set appendonly yes",
        ),
        (
            {"appendonly": False, "saves": "60 1"},
            "a crash loses what came after the last snapshot; set appendonly yes",
        ),
        (
            {"policy": "allkeys-lru"},
            "when its memory is full, the server deletes runs (maxmemory-policy allkeys-lru); set noeviction",
        ),
        ({"used_memory": 81}, "81% of maxmemory is used; when it is full, new runs are refused"),
        (
            {"failing": ("snapshot",)},
            "the server could not write its snapshot the last time; its log says why",
        ),
    ],
)
def test_what_is_dangerous_is_warned_of(change: dict[str, object], warning: str) -> None:
    assert warnings(FINE) == []
    assert warnings(msgspec.structs.replace(FINE, **change)) == [warning]


async def test_a_server_that_deletes_runs_when_it_is_full_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with valkey_server(config={"maxmemory-policy": "allkeys-lru"}) as server, caplog.at_level(logging.WARNING):
        async with opened_client(server.url) as client:
            await client.open()

    [record] = caplog.records
    assert "the server deletes runs (maxmemory-policy allkeys-lru); set noeviction" in record.getMessage()
