"""Wake-ups: an idle worker is woken when there is work, once, and no other worker is."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.records.policy import Lane, Mode, SessionPolicy
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.frame import Part, ids

LANES = ("team", "main")


async def resting(store: Store, name: str = "resting", *tasks: str) -> Hand:
    """Return a worker that has nothing to do and rests."""
    hand = await Hand(store, name, tasks=tasks or ("work",)).register()
    assert (await hand.rest()).claimed == []
    return hand


async def idle(store: Store) -> list[str]:
    """Return the workers that rest."""
    return [worker.incarnation.id for worker in await store.workers() if worker.idle]


async def woken(store: Store, *hands: Hand) -> list[Hand]:
    """Return which of these resting workers were woken: the store says they rest no more, and they have heard it."""
    at_rest = await idle(store)
    found = [hand for hand in hands if hand.name not in at_rest]
    for hand in found:
        assert await hand.hears(), hand.name
    return found


class Watcher:
    """Somebody who wants to hear of changes."""

    def __init__(self) -> None:
        self.told = threading.Event()

    async def hears(self) -> bool:
        """Tell whether a change is heard of, and forget it."""
        heard = await asyncio.to_thread(self.told.wait, 2.0)
        self.told.clear()
        return heard


class TestWakeups(Part):
    """`wake` of `WorkerStore.register`, and `EventStore.watch`."""

    async def test_a_resting_worker_is_woken_by_a_submission(self, store: Store) -> None:
        hand = await resting(store)
        assert await idle(store) == ["resting"]
        assert hand.woken == 0

        await store.submit([new_run("a")])

        assert await hand.hears()
        assert await idle(store) == []
        assert ids((await hand.rest()).claimed) == ["a"]

    async def test_a_worker_with_room_left_rests_and_is_woken(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        assert ids((await hand.rest(room=2)).claimed) == ["a"]
        assert await idle(store) == ["hand"]

        await store.submit([new_run("b")])

        assert await hand.hears()

    async def test_a_worker_without_room_does_not_rest(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await hand.rest(room=1)
        assert await idle(store) == []

        await store.submit([new_run("b")])

        assert hand.woken == 0

    async def test_a_worker_that_did_not_ask_to_rest_is_not_woken(self, store: Store) -> None:
        hand = await Hand(store).register()
        await hand.claim(1)
        assert await idle(store) == []

        await store.submit([new_run("a")])

        assert hand.woken == 0

    async def test_any_later_step_ends_the_rest(self, store: Store) -> None:
        hand = await resting(store)

        await hand.step()

        assert await idle(store) == []
        await store.submit([new_run("a")])
        assert hand.woken == 0

    async def test_a_worker_is_woken_once_and_again_only_after_it_rested_again(self, store: Store) -> None:
        hand = await resting(store)
        await store.submit([new_run("a")])
        assert await hand.hears()

        await store.submit([new_run("b")])
        await store.submit([new_run("c")])
        assert hand.woken == 1
        await hand.succeed(*(await hand.rest(room=3)).claimed)
        await hand.rest()
        await store.submit([new_run("d")])

        assert await hand.hears()
        assert hand.woken == 2

    async def test_as_many_workers_are_woken_as_there_are_runs_to_start(self, store: Store) -> None:
        hands = [await resting(store, f"w{index}") for index in range(5)]

        await store.submit(new_runs(3, "r"))

        assert len(await woken(store, *hands)) == 3
        assert sum(hand.woken for hand in hands) == 3

    async def test_no_more_workers_are_woken_than_the_lane_has_room_for(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=2)])
        hands = [await resting(store, f"w{index}") for index in range(4)]

        await store.submit(new_runs(4, "r"))

        assert len(await woken(store, *hands)) == 2

    async def test_a_repeated_submission_wakes_nobody(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await hand.succeed(*await hand.claim())
        await hand.rest()

        await store.submit([new_run("a")])

        assert await idle(store) == ["hand"]

    async def test_a_run_for_the_future_wakes_one_who_then_knows_when_it_is_due(self, store: Store) -> None:
        hands = [await resting(store, f"w{index}") for index in range(3)]

        await store.submit([new_run("a", delay=10)])

        [knows] = await woken(store, *hands)
        assert (await knows.rest()).due_in == 10 * SECOND

    async def test_a_due_time_earlier_than_before_wakes_one(self, store: Store) -> None:
        await store.submit([new_run("b", delay=60)])
        hand = await resting(store)

        await store.submit([new_run("a", delay=5)])

        assert await hand.hears()
        assert (await hand.rest()).due_in == 5 * SECOND

    async def test_a_due_time_later_than_one_that_is_known_wakes_nobody(self, store: Store) -> None:
        await store.submit([new_run("a", delay=5)])
        hand = await resting(store)

        await store.submit([new_run("b", delay=60)])

        assert await idle(store) == ["resting"]
        assert hand.woken == 0

    async def test_a_retry_that_is_due_later_than_what_is_known_wakes_nobody(self, store: Store) -> None:
        busy, claimed = await one_running(store, "busy")
        await store.submit([new_run("b", delay=0.5)])
        hand = await resting(store)

        await busy.fail(claimed)

        assert await idle(store) == ["resting"]
        assert hand.woken == 0

    async def test_somebody_who_rests_always_knows_the_next_due_time(self, store: Store) -> None:
        one, two = await resting(store, "one"), await resting(store, "two")
        await store.submit([new_run("later", delay=10)])
        [knows] = await woken(store, one, two)
        other = two if knows is one else one
        assert (await knows.rest()).due_in == 10 * SECOND

        await store.submit([new_run("now", lane="team")])
        await knows.claim(1)

        assert await other.hears()
        assert (await other.rest()).due_in == 10 * SECOND

    async def test_a_failure_whose_worker_goes_on_with_other_work_tells_one_who_rests(self, store: Store) -> None:
        busy, claimed = await one_running(store, "busy")
        hand = await resting(store)

        reply = await busy.fail(claimed)

        assert await hand.hears()
        assert (await hand.rest()).due_in == reply.due_in

    async def test_a_freed_slot_of_a_lane_wakes_one(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        busy, claimed = await one_running(store, "busy")
        await store.submit([new_run("b")])
        hand = await resting(store)

        await busy.succeed(claimed)

        assert await hand.hears()
        assert ids((await hand.rest()).claimed) == ["b"]

    async def test_a_freed_slot_of_a_user_wakes_one(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", per_user=1)])
        busy, claimed = await one_running(store, "busy")
        await store.submit([new_run("b", user="ann")])
        hand = await resting(store)

        await busy.succeed(claimed)

        assert await hand.hears()
        assert ids((await hand.rest()).claimed) == ["b"]

    async def test_the_end_of_a_sessions_run_wakes_one_for_the_next(self, store: Store) -> None:
        busy = await Hand(store, "busy").register()
        await store.submit(new_runs(2, "s", session="chat"))
        claimed = await busy.claim()
        hand = await resting(store)

        await busy.succeed(*claimed)

        assert await hand.hears()
        assert ids((await hand.rest()).claimed) == ["s-00001"]

    async def test_what_a_claim_lets_start_in_another_lane_wakes_the_one_who_claimed(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run(f"r{n}", lane=lane, session="s", max_concurrent=2) for n, lane in enumerate(LANES)])

        assert ids((await hand.rest(4)).claimed) == ["r0"]

        assert await woken(store, hand) == [hand]
        assert ids((await hand.rest(3)).claimed) == ["r1"]

    async def test_a_released_run_wakes_one(self, store: Store) -> None:
        busy, claimed = await one_running(store, "busy")
        hand = await resting(store)

        await busy.release(claimed)

        assert await hand.hears()

    @pytest.mark.parametrize("lane", [Lane("main", limit=2, per_user=1), Lane("main", limit=2)], ids=repr)
    async def test_a_raised_limit_wakes_one(self, store: Store, lane: Lane) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        await one_running(store, "busy")
        await store.submit([new_run("b")])
        hand = await resting(store)

        await store.declare_lanes([lane])

        assert await hand.hears()

    @pytest.mark.parametrize("lane", [Lane("main", per_user=2), Lane("main")], ids=repr)
    async def test_a_raised_or_removed_cap_wakes_one(self, store: Store, lane: Lane) -> None:
        await store.declare_lanes([Lane("main", per_user=1)])
        await one_running(store, "busy")
        await store.submit([new_run("b", user="ann")])
        hand = await resting(store)

        await store.declare_lanes([lane])

        assert await hand.hears()

    async def test_runs_made_due_by_one_worker_wake_others(self, store: Store, clock: FakeClock) -> None:
        hand = await resting(store)
        await store.submit(new_runs(2, "r", delay=1))
        assert await hand.hears()
        await hand.rest()
        other = await Hand(store, "other").register()
        await clock.advance(1)

        assert len(await other.claim(1)) == 1

        assert await hand.hears()
        assert len((await hand.rest()).claimed) == 1

    async def test_a_worker_that_knows_the_task_is_woken_when_another_set_the_run_aside(self, store: Store) -> None:
        mailer, scanner = await resting(store, "mailer", "mail"), await resting(store, "scanner", "scan")

        await store.submit([new_run("a", task="scan")])
        for hand in await woken(store, mailer):
            await hand.rest()

        assert await scanner.hears()
        assert ids((await scanner.rest()).claimed) == ["a"]

    async def test_a_run_set_aside_wakes_one_who_knows_it_when_its_lane_has_room_again(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        await store.submit([new_run("scan", task="scan"), new_run("mail", task="mail")])
        claimed = await mailer.claim(1)
        assert ids(claimed) == ["mail"]
        scanner = await resting(store, "scanner", "scan")

        await mailer.succeed(*claimed, room=1)

        assert await scanner.hears()
        assert ids((await scanner.rest()).claimed) == ["scan"]

    async def test_a_run_set_aside_wakes_one_who_knows_it_when_the_limit_is_raised(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        await store.submit([new_run("scan", task="scan"), new_run("mail", task="mail")])
        assert ids(await mailer.claim(1)) == ["mail"]
        scanner = await resting(store, "scanner", "scan")

        await store.declare_lanes([Lane("main", limit=2)])

        assert await scanner.hears()

    async def test_a_worker_at_its_limit_is_not_woken_for_a_run_of_that_lane_that_was_set_aside(
        self, store: Store
    ) -> None:
        await store.declare_lanes([Lane("main", limit=9, worker_limit=1)])
        hand = await Hand(store, "full").register()
        await store.submit(new_runs(2, "r"))
        [first] = await hand.claim(1)
        await (await Hand(store, "ignorant", tasks=["other"]).register()).claim(5)

        await hand.rest()

        assert await idle(store) == ["full"]
        assert hand.woken == 0
        assert ids((await hand.succeed(first, room=1)).claimed) == ["r-00001"]

    async def test_a_woken_worker_that_claims_nothing_passes_the_wake_up_on(self, store: Store) -> None:
        one, two = await resting(store, "one"), await resting(store, "two")
        await store.submit([new_run("a")])
        [first] = await woken(store, one, two)

        await first.step()

        assert await (two if first is one else one).hears()

    async def test_a_woken_worker_that_leaves_passes_the_wake_up_on(self, store: Store) -> None:
        one, two = await resting(store, "one"), await resting(store, "two")
        await store.submit([new_run("a")])
        [first] = await woken(store, one, two)

        await first.leave()

        assert await (two if first is one else one).hears()

    async def test_a_woken_worker_that_died_passes_the_wake_up_on_when_that_is_seen(self, store: Store) -> None:
        one, two = await resting(store, "one"), await resting(store, "two")
        heir = await Hand(store, "heir").register()
        await store.submit([new_run("a")])
        [first] = await woken(store, one, two)

        await heir.reclaim(first.name)

        assert await (two if first is one else one).hears()

    async def test_the_dead_are_not_woken(self, store: Store) -> None:
        dead, hand = await resting(store, "dead"), await resting(store, "alive")
        await hand.reclaim("dead")

        await store.submit([new_run("a")])

        assert await hand.hears()
        assert dead.woken == 0

    async def test_watchers_are_told_when_events_are_written_and_when_a_run_ends(self, store: Store) -> None:
        watcher = Watcher()
        stop = store.watch(watcher.told.set)
        hand, claimed = await one_running(store)
        assert await watcher.hears()

        await hand.emit(claimed, "log", 1)
        assert await watcher.hears()
        await hand.succeed(claimed)
        assert await watcher.hears()

        stop()

    async def test_watchers_are_told_what_a_message_did_to_other_runs(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat")])
        watcher = Watcher()
        stop = store.watch(watcher.told.set)

        await store.submit([new_run("b", session="chat", policy=SessionPolicy(mode=Mode.COLLECT))])
        assert await watcher.hears()
        await store.submit([new_run("c", session="chat", policy=SessionPolicy(mode=Mode.INTERRUPT))])
        assert await watcher.hears()

        stop()

    async def test_a_watcher_that_stopped_is_not_told_and_others_are(self, store: Store) -> None:
        one, two = Watcher(), Watcher()
        stop_one, stop_two = store.watch(one.told.set), store.watch(two.told.set)
        stop_one()
        stop_one()
        hand, claimed = await one_running(store)
        assert await two.hears()
        # Race: a store may tell both, before the one has stopped, that something may have been missed.
        one.told.clear()

        await hand.succeed(claimed)

        assert await two.hears()
        assert not one.told.is_set()
        stop_two()
