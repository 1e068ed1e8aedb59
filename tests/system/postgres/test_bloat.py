"""A PostgreSQL store beside transactions that go on and on: nothing that it deletes can be vacuumed while one does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from statistics import median
from typing import LiteralString

import psycopg
import pytest

from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed
from laneway.engine.common.clock import SystemClock
from laneway.ports.settings import LaneSetting
from laneway.stores.postgres.store import PostgresStore
from laneway.testing.hand import Hand, new_run
from laneway.testing.servers import Postgres
from laneway.testing.servers import postgres_server as private_server
from tests.system.harness.forms import LONG, report, sized, time_limit
from tests.system.harness.until import until

pytestmark = [pytest.mark.system, time_limit()]

BATCH = 50
WIDE = Lane("main", limit=1_000_000)
MOVING = ("ready", "lease", "lane", "pace", "turn", "worker")
DEAD = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE relname = ANY (%s)"
PASSED = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = ANY (%s)"
SIZE = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables WHERE relname = ANY (%s)"


class Load:
    """A producer and a worker of one store. Each round submits a batch, settles one and claims the next."""

    def __init__(self, store: PostgresStore, producer: PostgresStore, hand: Hand) -> None:
        self._store, self._producer, self._hand = store, producer, hand
        self._held: list[Claimed] = []

    async def round(self) -> float:
        """Do one round; return the seconds that the worker's step took."""
        await self._producer.submit([new_run() for _ in range(BATCH)])
        results = [self._hand.result(run, Succeeded("null")) for run in self._held]
        began = time.perf_counter()
        reply = await self._hand.step(results=results, room=BATCH)
        took = time.perf_counter() - began
        self._held = reply.claimed
        assert len(self._held) == BATCH
        return took


@asynccontextmanager
async def load_on(url: str) -> AsyncIterator[Load]:
    store, producer = PostgresStore(url, SystemClock()), PostgresStore(url, SystemClock())
    await store.open()
    await producer.open()
    try:
        await store.set(LaneSetting(WIDE))
        yield Load(store, producer, await Hand(store).register())
    finally:
        await producer.close()
        await store.close()


def old_snapshot(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """Begin a transaction that needs all that there is as it is now."""
    link = psycopg.connect(url)
    link.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    link.execute("SELECT count(*) FROM pg_class")
    return link


def asked(url: str, query: LiteralString) -> int:
    """Return a figure of the server about the tables that change all the time."""
    with psycopg.connect(url, autocommit=True) as link:
        [[number]] = link.execute(query, (list(MOVING),)).fetchall()
    return int(number)


async def test_a_long_transaction_of_another_slows_a_claim_by_at_most_half(postgres_server: Postgres) -> None:
    """Two databases of one server do the same in turns, so that other load slows both."""
    seconds = sized(10, 60)
    with ExitStack() as databases:
        urls = [databases.enter_context(postgres_server.database()) for _ in range(2)]
        took: list[tuple[float, float]] = []
        async with AsyncExitStack() as stack:
            loads = [await stack.enter_async_context(load_on(url)) for url in urls]
            stack.enter_context(old_snapshot(urls[0]))
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                took.append((await loads[0].round(), await loads[1].round()))
        # A server counts the work of a connection when that has ended.
        dead, passed = asked(urls[0], DEAD), asked(urls[0], PASSED) / len(took)

    # Round by round, because other load comes and goes.
    last = took[-len(took) // 4 :]
    slower = median(beside / alone for beside, alone in last)
    rounds = f"{len(took)} rounds of {BATCH} in {seconds} s"
    report(f"a step beside a long transaction took {slower:.2f} times as long as without; {rounds}, {dead:,} rows dead")
    assert dead > BATCH * len(took)
    report(f"{passed:.0f} entries of indexes were passed in a round")
    if LONG:  # a hundred rounds beside other tests say nothing about time
        assert slower < 1.5
    # On any machine: a claim does not pass index entries of earlier claims again.
    assert passed < 12 * BATCH


async def test_what_a_load_leaves_behind_is_vacuumed_and_its_place_used_again() -> None:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(private_server(autovacuum_naptime=1))
        url = stack.enter_context(server.database())
        load = await stack.enter_async_context(load_on(url))
        sizes = []
        for _ in range(3):
            for _ in range(sized(150, 600)):
                await load.round()
            await until(lambda: asked(url, DEAD) < 8000, "the dead rows are vacuumed", within=30)
            sizes.append(asked(url, SIZE))

    # When it is vacuumed is the server's to choose, so one of the first two may have been lucky.
    report(f"the moving tables took {sizes[0]:,}, {sizes[1]:,} and {sizes[2]:,} bytes after the thirds of a load")
    assert sizes[2] < 1.5 * max(sizes[:2])
