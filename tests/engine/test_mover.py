"""The mover brings a store's content to another one, interrupted or not, and opens only what holds the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from laneway.core.records.liveness import WorkerInfo
from laneway.core.transfer.move_state import MovePhase
from laneway.core.transfer.pieces import FIRST, Disabled, Mark, Page
from laneway.engine.mover import Mover, Progress, Side, Stage
from laneway.errors import MoveDiffers, MoveRefused, MoveUnfinished, SameStore, StoreMoved, StoreUnavailable
from laneway.ports.moves import Arrive, Moved, Reopen, Shut, Transition
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.redis.store import RedisStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run
from tests.support.filled_store import furnish, shown
from tests.support.invariants import all_runs, check_drains
from tests.support.lossy_store import LossyStore

Opened = Callable[[str], Awaitable[Store]]


@pytest.fixture
async def opened(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens a store of a kind."""
    async with AsyncExitStack() as stack:

        async def open_(kind: str) -> Store:
            store: Store
            if kind == "sqlite":
                store = SQLiteStore(tmp_path / "laneway.db", clock)
            elif kind == "redis":
                store = RedisStore(request.getfixturevalue("redis_url"), clock)
            else:
                store = PostgresStore(request.getfixturevalue("postgres_place"), clock)
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield open_


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def mover(source: Store, target: Store, clock: FakeClock, **options: Any) -> Mover:
    return Mover(Side(source, "sqlite:///here"), Side(target, "redis://there"), clock, **options)


@pytest.mark.parametrize("kinds", list(permutations(("sqlite", "redis", "postgres"), 2)), ids="-to-".join)
async def test_everything_is_moved_from_each_store_to_each(
    opened: Opened, clock: FakeClock, kinds: tuple[str, str]
) -> None:
    source, target = [await opened(kind) for kind in kinds]
    await furnish(source, clock)
    names = [run.id for run in await all_runs(source)]
    before = await shown(source, names)

    done = await mover(source, target, clock).move()

    assert done.counts["run"] == len(names)
    assert await shown(target, names) == before
    assert await target.check() == []
    with pytest.raises(StoreMoved):
        await source.submit([new_run()])
    assert (await mover(source, target, clock).move()).digest == done.digest  # told again, it is done
    with pytest.raises(MoveRefused, match="the move is done"):
        await mover(source, target, clock).abort()
    await check_drains(target, clock)


@pytest.fixture
async def source(clock: FakeClock) -> Store:
    store = MemoryStore(clock)
    await furnish(store, clock)
    return store


async def test_it_goes_on_where_it_was_interrupted(source: Store, clock: FakeClock) -> None:
    target = LossyStore(MemoryStore(clock))
    told: list[Progress] = []
    # It repeats a call three times by itself.
    for verb, times in (("move", 4), ("unpack", 4), ("unpack", 4), ("move", 4)):
        target.lose_reply(verb, times)
        with pytest.raises(Exception, match="answer was lost"):
            await clock_through(mover(source, target, clock).move(), clock)

    done = await mover(source, target, clock, report=told.append).move()

    assert done.counts["run"] == len(await all_runs(source))
    assert await target.check() == []


async def clock_through(work: Awaitable[Any], clock: FakeClock) -> Any:
    """Await this while time goes by."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await clock.advance(1)
        await asyncio.sleep(0)
    return task.result()


async def test_what_is_not_empty_is_refused_unless_told(source: Store, clock: FakeClock) -> None:
    target = MemoryStore(clock)
    await target.submit([new_run("precious")])

    with pytest.raises(MoveRefused, match="redis://there is not empty: it has 1 run"):
        await mover(source, target, clock).move()

    assert await source.moving() is None
    await mover(source, target, clock, overwrite=True).move()
    assert "precious" not in [run.id for run in await all_runs(target)]


async def test_a_move_that_is_given_up_leaves_both_as_they_were(source: Store, clock: FakeClock) -> None:
    target = LossyStore(MemoryStore(clock))
    target.fail("unpack", 4)
    with pytest.raises(Exception, match="not reached"):
        await clock_through(mover(source, target, clock).move(), clock)

    assert await mover(source, target, clock).abort()

    assert (await source.moving(), await target.moving(), await target.holds()) == (None, None, [])
    assert not await mover(source, target, clock).abort()
    await source.submit([new_run("next")])
    await check_drains(source, clock)


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_giving_up_goes_on_where_it_was_interrupted(opened: Opened, clock: FakeClock, kind: str) -> None:
    source, target = MemoryStore(clock), await opened(kind)
    await source.submit([new_run("a")])
    await source.move(Shut("m", "redis://there"))
    await target.move(Arrive("m (given up)", "sqlite:///here"))

    assert await mover(source, target, clock).abort()

    assert (await source.moving(), await target.moving()) == (None, None)
    await target.submit([new_run("b")])
    await check_drains(target, clock)


async def test_it_waits_for_who_executes_and_takes_over_from_the_dead(clock: FakeClock) -> None:
    source, target = MemoryStore(clock), MemoryStore(clock)
    hand = await Hand(source).register()
    await source.submit([new_run("a"), new_run("b")])
    await hand.claim(2)

    with pytest.raises(MoveUnfinished, match="2 runs are still executed in sqlite:///here"):
        await clock_through(mover(source, target, clock, wait=5).move(), clock)

    moving = await source.moving()
    assert moving is not None
    assert moving.phase is MovePhase.SHUT
    told: list[Progress] = []
    # Nobody renews, so the lease lapses.
    await clock_through(mover(source, target, clock, wait=300, report=told.append).move(), clock)
    assert told[0] == (Stage.WAITING, 0, 2)
    assert {run.crashes for run in await all_runs(target)} == {1}


class Forgetful(LossyStore):
    """A store that does not keep which tasks are disabled."""

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        page = await super().pack(after, limit=limit)
        return Page([piece for piece in page.pieces if not isinstance(piece, Disabled)], page.mark)


async def test_what_does_not_hold_the_same_is_not_opened(source: Store, clock: FakeClock) -> None:
    target = Forgetful(MemoryStore(clock))

    with pytest.raises(MoveDiffers, match="redis://there does not hold what sqlite:///here has: disabled: 1 there, 0"):
        await mover(source, target, clock).move()

    moving = await target.moving()
    assert moving is not None
    assert moving.phase is MovePhase.ARRIVING
    assert await mover(source, target, clock).abort()
    assert await source.moving() is None


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
@pytest.mark.parametrize("overwrite", [False, True])
async def test_a_store_is_not_moved_to_itself(opened: Opened, clock: FakeClock, kind: str, overwrite: bool) -> None:
    source, target = [await opened(kind) for _ in range(2)]
    await furnish(source, clock)
    names = [run.id for run in await all_runs(source)]
    hand = await Hand(source).register()
    before = await shown(source, names)

    with pytest.raises(SameStore, match="sqlite:///here and redis://there"):
        await mover(source, target, clock, overwrite=overwrite).move()

    assert await shown(source, names) == before
    assert (await source.moving(), await source.check()) == (None, [])
    assert [worker.incarnation.id for worker in await source.workers()] == ["hand"]
    assert (await hand.step()).moved is None  # who works there is not sent away
    await hand.leave()
    await check_drains(source, clock)


async def test_a_store_that_is_shut_for_another_name_of_itself_is_opened_again(source: Store, clock: FakeClock) -> None:
    await source.move(Shut("m", "redis://there"))

    with pytest.raises(SameStore):
        await mover(source, source, clock, overwrite=True).move()

    assert await mover(source, source, clock).abort()
    assert await source.moving() is None


class Sceptic(LossyStore):
    """A store that takes whoever asks for dead."""

    async def workers(self) -> list[WorkerInfo]:
        return []


async def test_a_mover_that_was_taken_for_dead_empties_nothing(source: Store, clock: FakeClock) -> None:
    target = MemoryStore(clock)
    await target.submit([new_run("precious")])

    with pytest.raises(StoreUnavailable, match="sqlite:///here took this mover for dead; start it again"):
        await mover(Sceptic(source), target, clock, overwrite=True).move()

    assert await target.holds() == ["1 run"]


class Restless(LossyStore):
    """A store that somebody begins to move away at the last moment."""

    async def move(self, transition: Transition) -> Moved:
        await super().move(Shut("o", "redis://far"))
        return await super().move(transition)


async def test_a_target_that_begins_to_leave_meanwhile_is_left_alone(source: Store, clock: FakeClock) -> None:
    target = Restless(MemoryStore(clock))

    with pytest.raises(MoveRefused, match="redis://there is itself being moved, to redis://far; finish that first"):
        await mover(source, target, clock).move()

    assert await source.moving() is None


async def test_two_moves_do_not_mix(source: Store, clock: FakeClock) -> None:
    target, other = MemoryStore(clock), MemoryStore(clock)
    await source.move(Shut("m", "redis://elsewhere"))
    with pytest.raises(MoveRefused, match="sqlite:///here is being moved to redis://elsewhere, not to redis://there"):
        await mover(source, target, clock).move()
    await source.move(Reopen("m"))
    await target.move(Arrive("n", "postgresql://other"))
    with pytest.raises(MoveRefused, match="redis://there is being filled by a move from postgresql://other"):
        await mover(source, target, clock).move()
    with pytest.raises(MoveRefused, match="sqlite:///here is being filled by a move from postgresql://other"):
        await mover(target, other, clock).move()
    await other.move(Shut("o", "redis://far"))
    with pytest.raises(MoveRefused, match="redis://there is itself being moved, to redis://far"):
        await mover(source, other, clock).move()
