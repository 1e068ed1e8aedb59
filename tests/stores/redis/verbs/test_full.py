"""A server whose memory is full takes no new runs; those that it has go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.states import RunState
from laneway.errors import StoreUnavailable
from laneway.ports.control import Cancel
from laneway.ports.settings import LaneSetting
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run
from laneway.testing.servers import Server, valkey_server
from tests.support.invariants import check_invariants


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with valkey_server() as server:
        yield server


@pytest.fixture
async def store(server: Server, clock: FakeClock) -> AsyncIterator[RedisStore]:
    server.command("CONFIG", "SET", "maxmemory", "0")
    server.command("FLUSHALL")
    store = RedisStore(server.url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def fill(server: Server) -> None:
    """Let the server's memory be full from now on."""
    server.command("CONFIG", "SET", "maxmemory", "1")


async def test_new_runs_are_refused_with_a_clear_line_and_nothing_is_written(server: Server, store: RedisStore) -> None:
    await store.submit([new_run("before")])
    fill(server)

    with pytest.raises(StoreUnavailable, match="is out of memory \\(maxmemory\\): it takes no new runs") as refused:
        await store.submit([new_run("after")])

    assert not refused.value.maybe_done
    assert (await store.depths()).runs == {"pending": 1}


async def test_also_when_somebody_rests_who_would_be_woken(server: Server, store: RedisStore) -> None:
    hand = await Hand(store).register()
    await hand.rest()
    fill(server)

    with pytest.raises(StoreUnavailable, match="out of memory"):
        await store.submit([new_run("after")])

    assert [worker.idle for worker in await store.workers()] == [True]


async def test_what_was_accepted_is_claimed_settled_and_steered(
    server: Server, store: RedisStore, clock: FakeClock
) -> None:
    await store.submit([new_run("a"), new_run("b"), new_run("c", session="s"), new_run("d", session="s")])
    hand = await Hand(store).register()
    fill(server)

    claimed = await hand.claim(1)
    await hand.succeed(*claimed, room=0)
    await store.change_run("call", "b", Cancel())
    await store.set(LaneSetting(Lane("main", limit=1)))
    hand.renew()
    more = await hand.claim(5)
    await hand.succeed(*more, room=5)

    assert (await store.get("a")).state is RunState.SUCCEEDED
    assert (await store.get("b")).state is RunState.CANCELLED
    assert (await store.get("c")).state is RunState.SUCCEEDED
    server.command("CONFIG", "SET", "maxmemory", "0")
    await check_invariants(store)
    [receipt] = await store.submit([new_run("again")])
    assert receipt.accepted
