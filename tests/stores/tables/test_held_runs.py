"""An admitted run is not held back again, also if its session begins anew in the same transaction."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest

from laneway.core.records.policy import Lane, Mode, SessionPolicy, WhenFull
from laneway.core.records.run import Claimed, ReceiptOutcome
from laneway.errors import WrongState
from laneway.ports.control import Cancel
from laneway.ports.settings import LaneSetting
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.raw_file import rows
from tests.support.invariants import check_drains, check_invariants

HELD = "SELECT count(*) FROM held"


async def test_what_is_cancelled_last_leaves_nothing_behind(store: SQLiteStore, path: Path, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(5, "run", session="chat"))
    for _ in range(3):
        await hand.succeed(*await hand.claim())
    assert rows(path, HELD) == [(1,)]

    [run] = await hand.claim()
    await store.change_run("c", "run-00004", Cancel())

    assert rows(path, HELD) == [(0,)]
    await hand.succeed(run)
    assert rows(path, "SELECT * FROM session") == []
    await store.submit(new_runs(3, "new", session="chat"))
    await check_drains(store, clock)


async def test_a_session_that_begins_anew_in_the_same_breath_counts_from_one(
    store: SQLiteStore, path: Path, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(6, "run", session="chat"))
    for _ in range(3):
        await hand.succeed(*await hand.claim())
    [run] = await hand.claim()
    for nth in (4, 5):
        await store.change_run(f"c{nth}", f"run-{nth:05}", Cancel())

    await hand.succeed(run, leaving=new_runs(4, "new", session="chat"))

    assert rows(path, HELD) == [(3,)]
    await check_invariants(store)
    await check_drains(store, clock)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_a_session_holds_that_begins_anew_is_seen_before_all_is_written(
    kind: str, path: Path, postgres_url: str, clock: FakeClock
) -> None:
    store: Store = SQLiteStore(path, clock) if kind == "sqlite" else PostgresStore(postgres_url, clock)
    await store.open()
    hand = await Hand(store).register()
    await store.submit(new_runs(7, "run", session="chat"))
    for _ in range(5):
        await hand.succeed(*await hand.claim())
    await store.set(LaneSetting(Lane("main", max_pending=3, when_full=WhenFull.DROP_OLD)))
    collect = SessionPolicy(mode=Mode.COLLECT, cap=1000)

    *_, receipt = await store.submit(
        [
            *new_runs(3, "other"),  # the last two of the session make way
            *new_runs(2, "new", session="chat", inside=True),
            new_run("more", session="chat", policy=collect),
        ]
    )

    assert (receipt.outcome, receipt.run_id) == (ReceiptOutcome.MERGED, "new-00001")
    await check_invariants(store)
    await check_drains(store, clock)
    await store.close()


class Life:
    """Random work in two long sessions, which runs leave and enter again; repeatable by its seed."""

    def __init__(self, store: Store, clock: FakeClock, seed: int) -> None:
        self._store, self._clock, self._random = store, clock, Random(seed)
        self._hand, self._claimed, self._number = Hand(store, "hand"), list[Claimed](), 0
        self.seen: list[object] = []

    async def begin(self) -> None:
        await self._hand.register()
        await self._submit(30)

    async def go_on(self) -> None:
        act = self._random.randrange(20)
        if act < 11 and self._claimed:
            await self._settle(self._claimed.pop(self._random.randrange(len(self._claimed))), act)
        elif act < 16:
            self._claimed += await self._hand.claim(self._random.randrange(1, 4))
            self.seen.append([run.id for run in self._claimed])
        elif act < 18:
            run_id = f"run-{self._random.randrange(self._number):04}"
            with contextlib.suppress(WrongState):
                self.seen.append((await self._store.change_run(f"c{len(self.seen)}", run_id, Cancel())).state)
        elif act == 18:
            await self._submit(self._random.randrange(1, 9))
        else:
            self._clock.step(1)

    async def _settle(self, run: Claimed, act: int) -> None:
        if act < 8:
            await self._hand.succeed(run)
        elif act < 10:
            await self._hand.snooze(run, delay=self._random.randrange(3))
        else:
            await self._hand.release(run)

    async def _submit(self, count: int) -> None:
        for _ in range(count):
            session = self._random.choice("ab")
            policy = SessionPolicy(pass_on_retry=session == "b", max_concurrent=1 + (session == "b"), cap=1000)
            await self._store.submit([new_run(f"run-{self._number:04}", session=session, policy=policy)])
            self._number += 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_long_life_goes_as_in_the_memory_store(kind: str, seed: int, path: Path, postgres_url: str) -> None:
    clocks = FakeClock(), FakeClock()
    store: Store = SQLiteStore(path, clocks[0]) if kind == "sqlite" else PostgresStore(postgres_url, clocks[0])
    await store.open()
    ours, theirs = Life(store, clocks[0], seed), Life(MemoryStore(clocks[1]), clocks[1], seed)
    await ours.begin()
    await theirs.begin()
    for _ in range(150):
        await ours.go_on()
        await theirs.go_on()
        assert ours.seen == theirs.seen
    await check_invariants(store)
    await check_drains(store, clocks[0])
    await store.close()
