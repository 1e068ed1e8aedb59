"""`laneway doctor` on a real Valkey server: what it does not keep, what it would delete, how full it is."""

from __future__ import annotations

import json

import pytest

from laneway import Scheduler
from laneway.testing.servers import valkey_server
from tests.cli.conftest import Laneway

SAFE = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory": "100mb", "maxmemory-policy": "noeviction"}
NOTHING_KEPT = "nothing is kept over a restart, so all runs are lost with it; set appendonly yes"
LESS_KEPT = "a crash loses what came after the last snapshot; set appendonly yes"
DELETES = "when its memory is full, the server deletes runs (maxmemory-policy allkeys-lru); set noeviction"
FULL = "% of maxmemory is used; when it is full, new runs are refused"


async def fill(url: str) -> None:
    async with Scheduler(url) as app:

        @app.task
        async def keep(text: str) -> None: ...

        await app.submit(keep, {"text": "x"})


@pytest.mark.parametrize(
    ("config", "warned", "restart"),
    [
        ({}, [], "keeps everything if its process dies"),
        ({"appendonly": "no", "save": ""}, [NOTHING_KEPT], "keeps nothing: it writes neither"),
        ({"appendonly": "no", "save": "60 1"}, [LESS_KEPT], "keeps everything if it is shut down in order"),
        ({"maxmemory-policy": "allkeys-lru"}, [DELETES], "keeps everything if its process dies"),
    ],
    ids=["safe", "nothing kept", "snapshots", "evicting"],
)
async def test_each_danger_of_a_server_is_told(
    laneway: Laneway, config: dict[str, str], warned: list[str], restart: str
) -> None:
    with valkey_server(config=SAFE | config) as server:
        await fill(server.url)

        done = laneway("doctor", "--store", server.url, "--json")
        shown = laneway("doctor", "--store", server.url)

    facts = json.loads(done.stdout)["facts"]
    assert done.returncode == shown.returncode == 0
    assert [fact["text"] for fact in facts if fact["name"] == "server" and fact["level"] == "warning"] == warned
    assert next(fact["text"] for fact in facts if fact["name"] == "restart").startswith(restart)
    for text in warned:
        assert text in " ".join(shown.stdout.split())


async def test_a_server_that_is_nearly_full_is_told(laneway: Laneway) -> None:
    with valkey_server(config=SAFE) as server:
        await fill(server.url)
        # So that it is at nine tenths; below what it uses already it would refuse, or delete.
        server.command("CONFIG", "SET", "maxmemory", int(server.facts("memory")["used_memory"]) * 10 // 9)

        done = laneway("doctor", "--store", server.url)

    assert done.returncode == 0
    assert FULL in " ".join(done.stdout.split())
