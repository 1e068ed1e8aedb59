"""Wake-ups between processes on PostgreSQL: they arrive, also after a cut; behind a pooler processes poll."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from laneway import Scheduler
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import Hand, new_run
from laneway.testing.servers import PostgresServer, postgres_server
from tests.stores.postgres.tools import cut, opened, until, with_parameter

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(own: PostgresServer) -> Iterator[str]:
    with own.database() as url:
        yield url


class Rung:
    """Counts how often it was called, and can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._loop.call_soon_threadsafe(self._more.set)

    async def reach(self, count: int) -> None:
        while self.count < count:
            self._more.clear()
            if self.count < count:
                await asyncio.wait_for(self._more.wait(), 20)


@asynccontextmanager
async def resting(store: PostgresStore) -> AsyncIterator[tuple[Hand, Rung]]:
    """Let a worker of the store be idle; return it with its wake-up."""
    hand, rung = Hand(store), Rung()
    await store.register(hand.incarnation, rung)
    await hand.rest()
    yield hand, rung


async def test_a_worker_that_rests_is_woken_by_another_process(url: str) -> None:
    async with opened(url) as store, opened(url) as other, resting(store) as (hand, rung):
        await other.submit([new_run("a")])
        await rung.reach(1)

        assert [run.id for run in await hand.claim()] == ["a"]


async def test_who_does_not_listen_any_more_wakes_everybody_and_listens_again(own: PostgresServer, url: str) -> None:
    async with opened(url) as store, opened(url) as other, resting(store) as (hand, rung):
        for nth in range(3):
            before = rung.count
            assert cut(own, "query LIKE '%writes%' OR query LIKE 'LISTEN%'") >= 1
            await rung.reach(before + 1)
            await until(lambda: store.access.runtime.is_listening)
            await hand.rest()
            before = rung.count

            await other.submit([new_run(f"r{nth}")])
            await rung.reach(before + 1)
            await hand.succeed(*await hand.claim())


async def test_a_server_that_is_killed_and_comes_back_is_listened_to_again(own: PostgresServer, url: str) -> None:
    async with opened(url) as store, opened(url) as other, resting(store) as (hand, rung):
        own.kill()
        await until(lambda: not store.access.runtime.is_listening)
        own.restart()
        await until(lambda: store.access.runtime.is_listening)
        assert rung.count >= 1, "what was said meanwhile was not heard"
        await hand.rest()
        before = rung.count

        await other.submit([new_run("a")])
        await rung.reach(before + 1)


async def test_watchers_hear_of_events_of_other_processes_also_after_a_cut(own: PostgresServer, url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        rung = Rung()
        stop = store.watch(rung)
        await until(lambda: _watchers(url) == 1)
        hand = await Hand(other).register()
        for nth in range(2):
            await other.submit([new_run(f"r{nth}")])
            before = rung.count
            assert await hand.claim(), "which writes events"
            await rung.reach(before + 1)
            before = rung.count
            cut(own)
            await rung.reach(before + 1)
            await until(lambda: store.access.runtime.is_listening)
        stop()


async def test_what_is_written_before_a_watcher_is_known_is_not_missed(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        with psycopg.connect(url) as link:
            link.execute("LOCK TABLE laneway.watcher IN EXCLUSIVE MODE")
            rung = Rung()
            store.watch(rung)
            await rung.reach(1)
            await other.submit([new_run("a")])
            assert await (await Hand(other).register()).claim()
            before = rung.count
        # Here its word is written, which had to wait.
        await rung.reach(before + 1)


def _watchers(url: str) -> int:
    with psycopg.connect(url) as link:
        return len(link.execute("SELECT 1 FROM laneway.watcher").fetchall())


async def test_behind_a_pooler_a_worker_looks_once_a_second_and_nothing_is_prepared_or_listened_to(
    own: PostgresServer, url: str
) -> None:
    pooled = with_parameter(url, "pooled=yes")
    app = Scheduler(pooled)
    started = asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        return "done"

    async with app.running(), opened(pooled) as other:
        store = await app.open()
        assert isinstance(store, PostgresStore)

        async def rests() -> bool:
            return all(worker.idle for worker in await other.workers())

        await until(rests)
        began = time.monotonic()
        await other.submit([new_run("a", task="work")])
        await asyncio.wait_for(started.wait(), 20)
        took = time.monotonic() - began

        assert not store.access.runtime.is_listening
        for presence in (store.access.runtime, other.access.runtime):
            for link in (presence.writer.connection.link, presence.reader._link):
                assert link is None or not link.prepared, "nothing is prepared"
        query = "SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert own.execute(query) == []
        assert took < 5


def test_a_store_that_was_never_used_leaves_nothing_open(url: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store = PostgresStore(url)
        del store
        gc.collect()

    assert [str(warning.message) for warning in caught if "unclosed" in str(warning.message)] == []


async def test_many_calls_behind_a_pooler_do_what_they_do_without(url: str) -> None:
    async with opened(url, "pooled=yes") as store:
        hand = await Hand(store).register()
        for nth in range(20):
            await store.submit([new_run(f"r{nth}", session="chat", user="ann")])
            await hand.succeed(*await hand.claim())

        assert (await store.depths()).runs == {"succeeded": 20}
        assert await store.check() == []
