"""Many processes on one PostgreSQL database: they make one store, and each sees what the others wrote."""

from __future__ import annotations

import asyncio
import sys

import psycopg
import pytest

from laneway.stores.postgres.server.connection import newest_layout
from laneway.testing.servers import Postgres
from tests.system.harness.forms import report, sized, time_limit
from tests.system.harness.stage import Stage
from tests.system.oracle.check import check
from tests.system.oracle.journal import Accepted

pytestmark = [pytest.mark.system, time_limit(short=180)]

OPENING = """
import asyncio, sys
from laneway.stores.postgres.store import PostgresStore

async def main():
    store = PostgresStore(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    print(len(await store.lanes()), flush=True)
    await store.close()

asyncio.run(main())
"""

HAMMERING = """
import asyncio, sys, time
from random import Random
from laneway import SessionPolicy
from tests.system.load.app import app, journal, stroll
from tests.system.oracle.journal import Accepted

POLICY = SessionPolicy(cap=100_000)

async def one(random, end):
    while time.monotonic() < end:
        receipt = await app.submit(stroll, session=f"shared-{random.choice((1, 2, 3))}", session_policy=POLICY)
        journal().write(Accepted, run=receipt.run_id)
        await asyncio.sleep(random.random() / 50)

async def main(seed, seconds):
    end = time.monotonic() + seconds
    await asyncio.gather(*(one(Random(seed + nth), end) for nth in range(2)))
    await app.aclose()

asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
"""


@pytest.mark.parametrize(("count", "isolation"), [(2, "serializable"), (10, "read committed")])
async def test_processes_that_open_an_empty_database_at_once_make_one_store(
    postgres_server: Postgres, count: int, isolation: str
) -> None:
    with postgres_server.database() as url:
        with psycopg.connect(url, autocommit=True) as link:
            link.execute(
                f"ALTER DATABASE {link.info.dbname} SET default_transaction_isolation = '{isolation}'".encode()
            )
        command = [sys.executable, "-c", OPENING, url]
        pipe = asyncio.subprocess.PIPE
        started = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(count)]
        for process in started:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        said = await asyncio.gather(*(process.communicate(b"\n") for process in started))
        with psycopg.connect(url) as link:
            layouts = link.execute("SELECT program, version FROM laneway.layout").fetchall()

    assert [process.returncode for process in started] == [0] * count
    assert len({out for out, _ in said}) == 1
    assert layouts == [("laneway", newest_layout())]


@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
async def test_producers_of_several_processes_on_few_sessions_leave_none_of_them_hanging(stage: Stage) -> None:
    """A session hangs if the transaction that ends its active run misses the run that was just queued, or the reverse.

    Each is short, and there are few, so that they meet all the time.
    """
    seconds = sized(5, 60)
    fleet = [stage.worker(concurrency=4) for _ in range(2)]
    await stage.ready(*fleet)
    producers = [stage.python("hammer", "-c", HAMMERING, str(seed), str(seconds)) for seed in (10, 20, 30)]
    for producer in producers:
        assert await producer.ended(seconds + 60) == 0
    async with stage.client() as client:
        took = await stage.drained(client, within=sized(60, 300))
        await stage.stop(*fleet)
        figures = await check(stage, client)
    acknowledged = len(stage.journal.of(Accepted))
    report(f"{figures.runs} runs on three sessions in {seconds} s; drained in {took:.1f} s")
    assert figures.runs == acknowledged > 0
    assert figures.failed == 0
