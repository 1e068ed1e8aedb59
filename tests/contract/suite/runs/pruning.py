"""Pruning: what is old goes, whole and alone; what has not ended stays. And what holds of a store after anything."""

from __future__ import annotations

import asyncio

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import Failed
from laneway.core.records.run import RunFilter
from laneway.core.records.states import TERMINAL, RunState
from laneway.errors import UnknownRun
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.frame import Part, widen
from tests.support.invariants import all_runs

MINUTE = 60 * SECOND
ALL = dict.fromkeys(TERMINAL, MINUTE)


async def ended(store: Store, clock: FakeClock, *ids: str, apart: float = 1) -> Hand:
    """Let runs with these ids succeed one after the other, so many seconds apart; return the hand that did it."""
    hand = await Hand(store, f"hand of {ids[0]}").register()
    for run_id in ids:
        await store.submit([new_run(run_id)])
        await hand.succeed(*await hand.claim(), value=run_id)
        await clock.advance(apart)
    return hand


async def left(store: Store) -> list[str]:
    """Return the ids of the runs that are still there, oldest first."""
    return [run.id for run in await all_runs(store)]


class TestPruning(Part):
    """`UpkeepStore.prune` and `check`."""

    async def test_a_run_goes_when_it_is_older_than_it_is_kept_and_not_before(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ended(store, clock, "a", apart=0)
        await clock.advance(60)
        assert await store.prune(OldRuns(ALL)) == 0

        await clock.advance(0.000001)

        assert await store.prune(OldRuns(ALL)) == 1
        assert await left(store) == []

    async def test_all_that_belongs_to_it_goes_with_it(self, store: Store, clock: FakeClock) -> None:
        await ended(store, clock, "a", "b")
        await clock.advance(58.5)

        await store.prune(OldRuns(ALL))

        with pytest.raises(UnknownRun):
            await store.get("a")
        with pytest.raises(UnknownRun):
            await store.events("a")
        assert await store.runs(RunFilter(state=RunState.SUCCEEDED), limit=10) == [await store.get("b")]
        assert (await store.depths()).runs == {"succeeded": 1}
        assert [event.kind for event in await store.events("b")] == ["started", "result", "done"]

    async def test_age_counts_from_the_end_and_not_from_the_acceptance(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("long"), new_run("short")])
        long, short = await hand.claim(2)
        await hand.succeed(short)
        for _ in range(100):
            await clock.advance(1)
            hand.renew()
        await hand.succeed(long)

        assert await store.prune(OldRuns(ALL)) == 1
        assert await left(store) == ["long"]

    async def test_those_that_ended_first_go_first_and_no_more_than_the_limit(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run(name) for name in "abcd"])
        runs = {run.id: run for run in await hand.claim(4)}
        for name in "cbda":
            await hand.settle([runs[name]], Failed(error(kind="bad_result")))
            await clock.advance(1)
        await clock.advance(100)

        assert await store.prune(OldRuns(ALL), limit=1) == 1
        assert await left(store) == ["a", "b", "d"]
        assert await store.prune(OldRuns(ALL), limit=2) == 2
        assert await left(store) == ["a"]
        assert await store.prune(OldRuns(ALL), limit=2) == 1
        assert await store.prune(OldRuns(ALL), limit=2) == 0

    async def test_the_oldest_of_all_states_goes_first(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run(name) for name in "abc"])
        runs = await hand.claim(3)
        for run, fails in zip(runs, (False, True, False), strict=True):
            await (hand.fail(run, failure=error(kind="bad_result")) if fails else hand.succeed(run))
            await clock.advance(1)
        await clock.advance(100)

        assert await store.prune(OldRuns(ALL), limit=2) == 2

        assert await left(store) == ["c"]

    async def test_of_the_same_instant_the_one_accepted_first_goes_first(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))
        await hand.succeed(*reversed(await hand.claim(5)))
        await clock.advance(61)

        await store.prune(OldRuns(ALL), limit=3)

        assert await left(store) == ["r-00003", "r-00004"]

    async def test_each_state_is_kept_for_its_own_time_and_one_not_named_for_ever(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await ended(store, clock, "good")
        await store.submit([new_run("bad")])
        await hand.fail(*await hand.claim(), failure=error(kind="bad_result"))
        await clock.advance(3600)

        assert await store.prune(OldRuns({})) == 0
        assert await store.prune(OldRuns({RunState.FAILED: 2 * 3600 * SECOND, RunState.SUCCEEDED: MINUTE})) == 1
        assert await left(store) == ["bad"]
        assert await store.prune(OldRuns({RunState.SUCCEEDED: 0, RunState.CANCELLED: 0, RunState.DROPPED: 0})) == 0
        assert await store.prune(OldRuns({RunState.FAILED: MINUTE})) == 1

    async def test_what_has_not_ended_is_never_pruned(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("running"), new_run("again")])
        running, again = await hand.claim(2)
        await hand.emit(running, "log", {"text": "hello"})
        await hand.fail(again)
        await store.submit(
            [new_run("future", delay=10**6), new_run("first", session="s"), new_run("held", session="s")]
        )
        await store.submit([new_run("unknown", task="other")])
        before = await all_runs(store)
        clock.step(10**5)

        assert await store.prune(OldRuns(dict.fromkeys(RunState, 0))) == 0

        assert await all_runs(store) == before
        assert [event.kind for event in await store.events("running")] == ["started", "log"]
        await hand.succeed(running)

    async def test_a_number_is_not_given_again_and_an_id_is_new_again(self, store: Store, clock: FakeClock) -> None:
        await ended(store, clock, "a", "b")
        await clock.advance(100)
        assert await store.prune(OldRuns(ALL)) == 2

        await store.submit([new_run("b"), new_run("c")])

        assert [(run.id, run.number) for run in await all_runs(store)] == [("b", 3), ("c", 4)]
        assert [run.id for run in await store.runs(RunFilter(), limit=1, before=4)] == ["b"]
        assert await store.events("b") == []

    async def test_pages_go_on_though_runs_are_pruned_meanwhile(self, store: Store, clock: FakeClock) -> None:
        await ended(store, clock, *"abcde", apart=0)
        await clock.advance(100)
        first = await store.runs(RunFilter(), limit=2)

        await store.prune(OldRuns(ALL), limit=2)

        rest = await store.runs(RunFilter(), limit=10, before=first[-1].number)
        assert [run.id for run in (*first, *rest)] == ["e", "d", "c"]

    async def test_sessions_and_turns_know_nothing_of_it(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "r", session="chat", user="ann"))
        for _ in range(2):
            await hand.succeed(*await hand.claim())
            await clock.advance(100)
            hand.renew()
            await store.prune(OldRuns(ALL))

        assert await left(store) == ["r-00002", "r-00003"]
        assert [run.id for run in await hand.claim(5)] == ["r-00002"]

    async def test_a_late_result_for_a_run_that_was_pruned_is_refused(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        [run] = await hand.claim()
        await hand.succeed(run)
        await clock.advance(100)
        await store.prune(OldRuns(ALL))
        hand.renew()

        reply = await hand.succeed(run)

        assert reply.refused == [(run.number, run.fence)]
        assert await left(store) == []

    async def test_several_may_prune_at_once_and_each_run_is_counted_once(self, store: Store, clock: FakeClock) -> None:
        await widen(store)
        hand = await Hand(store).register()
        await store.submit(new_runs(300, "r"))
        await hand.succeed(*await hand.claim(300))
        await clock.advance(100)

        counts = await asyncio.gather(*(store.prune(OldRuns(ALL), limit=40) for _ in range(10)))

        assert sum(counts) == 300
        assert await left(store) == []

    async def test_a_healthy_store_has_nothing_to_find_or_to_repair(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(8, "b", lane="background", user="ann"))
        await store.submit(new_runs(3, "s", session="chat", max_concurrent=2))
        await store.submit([new_run("later", delay=60), new_run("unknown", task="other")])
        await hand.fail(*await hand.claim(3))
        before = await all_runs(store)

        assert await store.check() == []
        assert await store.check(repair=True) == []

        assert await all_runs(store) == before
        examination = await store.examine()
        assert (examination.damage, examination.findings) == ([], [])
        assert examination.runs == (await store.depths()).runs
        assert [worker.incarnation.id for worker in examination.workers or ()] == ["hand"]
