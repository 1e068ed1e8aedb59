"""Moves: a store lets all that it has go to another one, or takes in all that another one had.

As the source of a move it first takes nothing new, then does not change at all; what it says of itself meanwhile is
told to whoever comes. As the target it is nobody's until it is opened. Whatever form stores keep things in, they give
and take them in the same one: what arrives is what left, down to turns, numbers and fences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.policy import Lane, Rule
from laneway.core.records.run import ReceiptOutcome, RunFilter
from laneway.core.records.states import RunState
from laneway.core.transfer.move_state import MovePhase, Moving
from laneway.core.transfer.pieces import FIRST
from laneway.errors import StoreMoved, StoreUnavailable
from laneway.ports.control import Answer, Cancel, Pause, Resume
from laneway.ports.gates import Held
from laneway.ports.jobs import AddJob, EditJob, RemoveJob
from laneway.ports.moves import Arrive, Freeze, Moved, OpenUp, Reopen, Shut
from laneway.ports.sessions import Extent
from laneway.ports.settings import BreakerClosed, Hold, LaneSetting, LaneUnset, SessionSetting, TaskDisabled, UserCap
from laneway.ports.store import Store
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.stores.memory.store import MemoryStore
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run
from tests.contract.suite.frame import Part, ids, start_order
from tests.support.filled_store import KEYED, furnish, shown
from tests.support.invariants import all_runs, check_drains
from tests.support.jobs import fire_due, kept_job, new_job, standing
from tests.support.moves import all_pieces, bring, tally

THERE = "redis://there"

CHANGES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "submit": lambda store: store.submit([new_run()]),
    "fire": lambda store: store.fire([]),
    "cancel": lambda store: store.change_run("call", "a", Cancel()),
    "cancel_where": lambda store: store.cancel_where("call", RunFilter(task="work")),
    "pause": lambda store: store.change_run("call", "a", Pause()),
    "resume": lambda store: store.change_run("call", "a", Resume()),
    "answer": lambda store: store.change_run("call", "a", Answer('"yes"')),
    "stop": lambda store: store.stop("call", "chat", Extent.OLDEST),
    "stop_all": lambda store: store.stop("call", "chat", Extent.ALL),
    "declare_lanes": lambda store: store.declare_lanes([Lane("main", limit=1)]),
    "set_lane": lambda store: store.set(LaneSetting(Lane("main", limit=1))),
    "unset_lane": lambda store: store.set(LaneUnset("main")),
    "set_cap": lambda store: store.set(UserCap("ann", "main", 1)),
    "set_session": lambda store: store.set(SessionSetting("chat", Rule(cap=1))),
    "hold": lambda store: store.set(Hold(Held.TASK, "work", held=True)),
    "disable": lambda store: store.set(TaskDisabled("work", disabled=True)),
    "close_breaker": lambda store: store.set(BreakerClosed("work")),
    "add_job": lambda store: store.change_job(AddJob(new_job(0))),
    "change_job": lambda store: store.change_job(EditJob(new_job(0))),
    "remove_job": lambda store: store.change_job(RemoveJob("j")),
    "restart_time": lambda store: store.restart_time(),
    "register": lambda store: Hand(store, "new").register(),
}


async def frozen(store: Store, move: str = "m") -> None:
    """Make the store the source of a move that is about to be copied."""
    await store.move(Shut(move, THERE))
    assert (await store.move(Freeze(move))).leases == 0


class TestLeaving(Part):
    """The source of a move."""

    async def test_one_that_is_shut_takes_nothing_new_and_says_where_it_goes(self, store: Store) -> None:
        assert await store.moving() is None

        found = (await store.move(Shut("m", THERE))).standing

        assert found == await store.moving() == Moving(phase=MovePhase.SHUT, move="m", place=THERE)
        assert (await store.move(Shut("another", "elsewhere"))).standing == found
        for change in ("submit", "fire", "register"):
            with pytest.raises(StoreMoved, match=f"this store has moved to {THERE}") as told:
                await CHANGES[change](store)
            assert told.value.where == THERE
        assert (await store.move(Reopen("m"))).done
        assert await store.moving() is None
        await store.submit([new_run()])

    async def test_its_workers_settle_and_claim_nothing(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a"), new_run("b")])
        claimed = await hand.claim(1)
        await store.move(Shut("m", THERE))

        reply = await hand.succeed(*claimed, room=5)

        assert (reply.claimed, reply.refused, reply.moved) == ([], [], THERE)
        assert (await store.get("a")).state is RunState.SUCCEEDED
        assert await hand.repeat_last() == reply
        await store.move(Reopen("m"))
        reply = await hand.step(room=5)
        assert (ids(reply.claimed), reply.moved) == (["b"], None)

    async def test_those_who_rest_are_woken(self, store: Store) -> None:
        hand = await Hand(store).register()
        await hand.rest()

        await store.move(Shut("m", THERE))

        assert await hand.hears()
        assert (await hand.rest()).moved == THERE
        await store.move(Reopen("m"))

    async def test_people_may_still_control_what_is_there(self, store: Store) -> None:
        await store.submit([new_run("a"), new_run("b", session="chat")])
        await store.move(Shut("m", THERE))

        await store.change_run("call", "a", Cancel())
        await store.change_run("call", "b", Pause())

        assert (await store.get("a")).state is RunState.CANCELLED
        assert (await store.get("b")).state is RunState.PAUSED
        await store.move(Reopen("m"))

    async def test_who_knows_no_tasks_may_take_over_from_the_dead(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await hand.claim(1)
        await store.move(Shut("m", THERE))
        assert (await store.move(Freeze("m"))).leases == 1
        heir = await Hand(store, "heir", tasks=()).register()

        reply = await heir.reclaim("hand")
        await heir.lapse(*reply.lapsed)

        assert (await store.move(Freeze("m"))).leases == 0
        assert (await store.get("a")).state is RunState.PENDING
        await store.move(Reopen("m"))

    async def test_it_is_frozen_once_nothing_is_executed(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a"), new_run("b", delay=5)])
        [claimed] = await hand.claim(1)
        await store.move(Shut("m", THERE))
        assert (await store.move(Freeze("m"))).leases == 1
        assert (await store.moving() or Moving(phase=MovePhase.ARRIVED, move="", place="")).phase is MovePhase.SHUT
        await hand.succeed(claimed)
        with pytest.raises(StoreUnavailable, match="not the source of move other"):
            await store.move(Freeze("other"))

        assert await store.move(Freeze("m")) == await store.move(Freeze("m")) == Moved(done=True)

        assert await store.moving() == Moving(phase=MovePhase.FROZEN, move="m", place=THERE)
        before = tally(await all_pieces(store))
        await clock.advance(10)
        for _ in range(2):
            reply = await hand.step(results=[hand.result(claimed, Succeeded("1"))], room=5)
            assert (reply.claimed, reply.refused, reply.moved) == ([], [(claimed.number, claimed.fence)], THERE)
        assert await store.prune(OldRuns(dict.fromkeys(RunState, 0))) == await store.prune(OldDeltas(0)) == 0
        assert hand.renew().leases == []
        assert before.differences(tally(await all_pieces(store))) == []
        await hand.leave()
        await store.move(Reopen("m"))

    @pytest.mark.parametrize("change", CHANGES)
    async def test_nothing_changes_it_then(self, store: Store, change: str) -> None:
        await store.submit([new_run("a", session="chat")])
        await frozen(store)
        before = tally(await all_pieces(store))

        with pytest.raises(StoreMoved):
            await CHANGES[change](store)

        assert before.differences(tally(await all_pieces(store))) == []
        assert (await store.get("a")).state is RunState.PENDING
        await store.move(Reopen("m"))

    async def test_another_move_cannot_reopen_it(self, store: Store) -> None:
        await frozen(store)

        assert not (await store.move(Reopen("other"))).done

        assert (await store.moving() or Moving(phase=MovePhase.ARRIVED, move="", place="")).move == "m"
        assert (await store.move(Reopen("m"))).done


class TestArriving(Part):
    """The target of a move, and what arrives there."""

    async def test_nobody_uses_it_before_it_is_opened(self, store: Store) -> None:
        assert (await store.move(Arrive("m", "sqlite:///there"))).standing == Moving(
            phase=MovePhase.ARRIVING, move="m", place="sqlite:///there"
        )
        for change in CHANGES.values():
            with pytest.raises(StoreUnavailable, match="is being filled by a move from sqlite:///there"):
                await change(store)
        await store.unpack("m", [], ("runs", "7"))
        assert (await store.move(Arrive("m", "sqlite:///there"))).standing == await store.moving()
        assert (await store.moving() or Moving(phase=MovePhase.ARRIVED, move="", place="")).mark == ("runs", "7")
        with pytest.raises(StoreUnavailable, match="not the target of move other"):
            await store.unpack("other", [], None)

        assert (await store.move(Reopen("m"))).done
        await store.submit([new_run("a")])

    async def test_one_that_is_given_up_is_empty_again(self, store: Store, clock: FakeClock) -> None:
        source = MemoryStore(clock)
        await furnish(source, clock)
        await store.move(Arrive("m", "there"))
        await store.unpack("m", await all_pieces(source), None)

        assert (await store.move(Reopen("m"))).done

        assert await store.holds() == []
        assert await all_runs(store) == []
        assert await store.lanes() == await MemoryStore(clock).lanes()

    async def test_it_says_what_it_holds(self, store: Store, clock: FakeClock) -> None:
        assert await store.holds() == []
        hand = await Hand(store).register()
        await store.submit([new_run("a", key="k"), new_run("b")])
        await kept_job(store, clock.now())
        await store.set(Hold(Held.USER, "ann", held=True))

        found = await store.holds()

        assert found == ["2 runs", "1 job", "1 idempotency key", "1 operator's setting", "1 live worker"]
        await hand.leave()

    async def test_all_arrives_that_another_store_had(self, store: Store, clock: FakeClock) -> None:
        source = MemoryStore(clock)
        await furnish(source, clock)
        await frozen(source)
        pieces = await all_pieces(source)
        names = [run.id for run in await all_runs(source)]
        await store.submit([new_run("what was there before")])

        await bring(pieces, store)

        assert tally(pieces).differences(tally(await all_pieces(store, limit=7))) == []
        assert await shown(store, names) == await shown(source, names)
        assert await store.check() == []
        await source.move(Reopen("m"))
        await self._goes_on(store, source, clock)

    async def test_all_leaves_for_another_store(self, store: Store, clock: FakeClock) -> None:
        target = MemoryStore(clock)
        await furnish(store, clock)
        await frozen(store)
        names = [run.id for run in await all_runs(store)]

        await bring(await all_pieces(store, limit=7), target)

        assert tally(await all_pieces(store)).differences(tally(await all_pieces(target))) == []
        assert await shown(target, names) == await shown(store, names)
        assert await target.check() == []
        await store.move(Reopen("m"))
        await self._goes_on(store, target, clock)
        await check_drains(target, clock)

    async def _goes_on(self, store: Store, other: Store, clock: FakeClock) -> None:
        """Both go on in the same way: with receipts, keys, numbers, fences, fires and turns."""
        for one in (store, other):
            await one.submit([new_run("next")])
            [same] = await one.submit([KEYED])
            assert (same.outcome, same.run_id) == (ReceiptOutcome.ACCEPTED, "keyed")
            [existing] = await one.submit([new_run("x", args={"n": 1}, user="ann", key="order 7")])
            assert (existing.outcome, existing.run_id) == (ReceiptOutcome.EXISTING, "keyed")
            [gone] = await one.submit([new_run("y", key="long ago")])
            assert (gone.outcome, gone.run_id) == (ReceiptOutcome.EXISTING, "gone")
            await fire_due(one)
        assert (await store.get("next")).number == (await other.get("next")).number
        assert await standing(store) == await standing(other)
        tasks = {"work", "fragile", "nobody knows"}
        orders = [await start_order(await Hand(one, "last", tasks=tasks).register()) for one in (store, other)]
        assert orders[0] == orders[1] != []
        assert (await store.get("saved")).fence == (await other.get("saved")).fence == 1

    async def test_a_page_may_come_again(self, store: Store, clock: FakeClock) -> None:
        source = MemoryStore(clock)
        await furnish(source, clock)
        pieces = await all_pieces(source)
        await store.move(Arrive("m", "there"))

        for _ in range(2):
            await store.unpack("m", pieces, FIRST)
        await store.move(OpenUp("m"))
        await store.move(OpenUp("m"))

        assert tally(pieces).differences(tally(await all_pieces(store))) == []
        assert await store.check() == []

    async def test_one_that_has_arrived_may_leave_again(self, store: Store) -> None:
        await bring([], store, "m")
        arrived = await store.moving()
        assert arrived == Moving(phase=MovePhase.ARRIVED, move="m", place="elsewhere")
        assert not (await store.move(Reopen("m"))).done
        await store.declare_lanes([Lane("main")])
        await store.submit([new_run("a")])

        await frozen(store, "n")

        assert (await store.move(Reopen("n"))).done
        assert ids(await (await Hand(store).register()).claim(1)) == ["a"]
