"""Holding: a lane, user, session or task that is paused, and a task that is disabled."""

from __future__ import annotations

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import Receipt, ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.gates import Held, TaskState
from laneway.ports.settings import Hold, TaskDisabled, UserCap
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.claims.lanes import lane
from tests.contract.suite.frame import Part, counts, ids, kinds, start_order, states
from tests.contract.suite.workers.wakeups import resting, woken
from tests.support.sessions import session_of

NAMES = {Held.LANE: "main", Held.USER: "ann", Held.SESSION: "chat", Held.TASK: "work"}


class TestPausedAndDisabled(Part):
    """`GateStore.hold`: whatever is held, the same holds."""

    async def _runs(self, store: Store, number: int = 3) -> None:
        """Submit runs that all four names are names of; the session admits several."""
        await store.submit(new_runs(number, "r", user="ann", session="chat", max_concurrent=9))

    @pytest.mark.parametrize("what", Held)
    async def test_nothing_starts_and_nothing_else_is_held(self, store: Store, what: Held) -> None:
        hand = await Hand(store, tasks={"work", "mail"}).register()
        await self._runs(store)

        await store.set(Hold(what, NAMES[what], held=True))
        await store.submit([new_run("late", user="ann", session="chat")])
        await store.submit([new_run("other", lane="team", user="bob", session="talk", task="mail")])

        assert ids(await hand.claim(9)) == ["other"]
        assert await hand.claim(9) == []
        assert (await store.depths()).runs == {"pending": 4, "running": 1}
        assert (await lane(store, "main")).pending == 4

    @pytest.mark.parametrize("what", Held)
    async def test_what_runs_goes_on_to_its_end(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await self._runs(store)
        claimed = await hand.claim(2)

        await store.set(Hold(what, NAMES[what], held=True))

        assert await states(store, *ids(claimed)) == [RunState.RUNNING, RunState.RUNNING]
        reply = await hand.succeed(*claimed, room=9)
        assert (reply.claimed, reply.refused, reply.requests) == ([], [], [])
        assert await states(store, *ids(claimed)) == [RunState.SUCCEEDED, RunState.SUCCEEDED]

    @pytest.mark.parametrize("what", Held)
    async def test_a_resume_wakes_and_lets_start_in_order(self, store: Store, what: Held) -> None:
        rester = await resting(store)
        await store.set(Hold(what, NAMES[what], held=True))
        await self._runs(store, 4)
        while (await woken(store, rester)) == [rester]:
            assert (await rester.rest(5)).claimed == []

        await store.set(Hold(what, NAMES[what], held=False))

        assert await woken(store, rester) == [rester]
        assert ids(await rester.claim(9)) == [f"r-{index:05d}" for index in range(4)]

    @pytest.mark.parametrize("what", Held)
    async def test_what_was_in_the_order_before_keeps_its_place_in_it(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await self._runs(store, 3)
        await store.submit([new_run("late", user="ann", session="chat")])

        await store.set(Hold(what, NAMES[what], held=True))
        assert await hand.claim(9) == []
        await store.set(Hold(what, NAMES[what], held=False))

        assert await start_order(hand) == ["r-00000", "r-00001", "r-00002", "late"]

    @pytest.mark.parametrize("what", Held)
    async def test_a_retried_and_a_released_run_are_held_as_well(
        self, store: Store, clock: FakeClock, what: Held
    ) -> None:
        hand = await Hand(store).register()
        await self._runs(store)
        retried, released, rest = await hand.claim(3)
        await store.set(Hold(what, NAMES[what], held=True))

        await hand.fail(retried)
        await hand.release(released)
        await clock.advance(60)

        assert await hand.claim(9) == []
        assert await states(store, retried.id, released.id) == [RunState.PENDING, RunState.PENDING]
        await store.set(Hold(what, NAMES[what], held=False))
        assert sorted(ids(await hand.claim(9))) == [retried.id, released.id]
        await hand.succeed(rest)

    @pytest.mark.parametrize("what", Held)
    async def test_runs_in_the_order_that_were_started_before_are_held_as_well(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await self._runs(store)
        await hand.release(*await hand.claim(2))

        await store.set(Hold(what, NAMES[what], held=True))
        assert await hand.claim(9) == []
        await store.set(Hold(what, NAMES[what], held=False))

        assert sorted(ids(await hand.claim(9))) == ["r-00000", "r-00001", "r-00002"]

    @pytest.mark.parametrize("what", Held)
    async def test_holding_twice_is_holding_once(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await self._runs(store)
        for held in (True, True, False, False):
            await store.set(Hold(what, NAMES[what], held=held))

        assert len(await hand.claim(9)) == 3

    @pytest.mark.parametrize("what", Held)
    async def test_what_is_held_can_be_cancelled_paused_and_resumed(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await self._runs(store)
        await store.set(Hold(what, NAMES[what], held=True))
        await hand.claim(9)

        await store.change_run("c1", "r-00000", Pause())
        await store.change_run("c2", "r-00001", Cancel())
        await store.change_run("c3", "r-00000", Resume())

        assert await hand.claim(9) == []
        assert await kinds(store, "r-00000") == ["paused", "resumed"]
        assert await kinds(store, "r-00001") == ["cancel_requested", "done"]
        await store.set(Hold(what, NAMES[what], held=False))
        assert await start_order(hand) == ["r-00000", "r-00002"]

    @pytest.mark.parametrize("what", Held)
    async def test_a_paused_run_that_is_resumed_while_it_is_held_waits(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await self._runs(store, 2)
        await store.change_run("c1", "r-00000", Pause())
        await store.set(Hold(what, NAMES[what], held=True))

        await store.change_run("c2", "r-00000", Resume())
        assert await hand.claim(9) == []
        await store.set(Hold(what, NAMES[what], held=False))

        assert await start_order(hand) == ["r-00000", "r-00001"]

    @pytest.mark.parametrize("what", [Held.USER, Held.SESSION, Held.TASK])
    async def test_what_nobody_has_heard_of_can_be_held(self, store: Store, what: Held) -> None:
        hand = await Hand(store).register()
        await store.set(Hold(what, NAMES[what], held=True))

        await self._runs(store)

        assert await hand.claim(9) == []
        await store.set(Hold(what, NAMES[what], held=False))
        assert len(await hand.claim(9)) == 3


class TestHeldThings(Part):
    """What is particular to each of them, and `disable`."""

    async def test_what_is_paused_can_be_seen(self, store: Store) -> None:
        await Hand(store).register()
        for what, name in NAMES.items():
            await store.set(Hold(what, name, held=True))

        assert (await lane(store, "main")).paused
        assert [(user.user, user.paused) for user in await store.users()] == [("ann", True)]
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.paused, state.active, state.queued) == (True, 0, 0)
        assert await store.tasks() == [TaskState(name="work", paused=True, workers=1)]
        for what, name in NAMES.items():
            await store.set(Hold(what, name, held=False))
        assert await session_of(store, "chat") is None
        assert await store.users() == []
        assert not (await lane(store, "main")).paused

    async def test_a_paused_user_is_held_in_lanes_made_later_and_keeps_a_cap_of_its_own(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.set(UserCap("ann", "main", 2))
        await store.set(Hold(Held.USER, "ann", held=True))
        await store.declare_lanes([Lane("new", limit=5)])
        await store.submit([*new_runs(3, "m", user="ann"), new_run("n", user="ann", lane="new")])
        assert await hand.claim(9) == []
        assert [user.cap for user in await store.users(user="ann")] == [2, None]

        await store.set(Hold(Held.USER, "ann", held=False))

        assert sorted(ids(await hand.claim(9))) == ["m-00000", "m-00001", "n"]

    async def test_a_paused_task_keeps_its_ranks_and_its_workers_do_other_work(self, store: Store) -> None:
        hand = await Hand(store, tasks={"work", "mail"}).register()
        await store.submit(
            [new_run("w1", user="ann"), new_run("m1", user="ann", task="mail"), new_run("w2", user="ann")]
        )
        await store.set(Hold(Held.TASK, "work", held=True))
        mail = await hand.claim(5)
        assert ids(mail) == ["m1"]
        assert TaskState(name="work", paused=True, workers=1, aside=2) in await store.tasks()
        await store.submit([new_run("w3", user="ann")])

        await store.set(Hold(Held.TASK, "work", held=False))

        assert ids((await hand.succeed(*mail, room=5)).claimed) == ["w1", "w2", "w3"]

    async def test_a_paused_session_that_was_empty_stays_paused(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat")])
        claimed = await hand.claim(1)
        await store.set(Hold(Held.SESSION, "chat", held=True))
        await hand.succeed(*claimed)

        await store.submit([new_run("b", session="chat")])

        assert await hand.claim(9) == []
        await store.set(Hold(Held.SESSION, "chat", held=False))
        assert ids(await hand.claim(9)) == ["b"]

    async def test_the_places_of_a_paused_session_are_kept(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        await hand.release(*await hand.claim(1))
        await store.set(Hold(Held.SESSION, "chat", held=True))
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.active, state.queued, (await lane(store, "main")).ready) == (1, 1, 0)
        await store.submit([new_run("last", session="chat", max_concurrent=5)])
        assert await hand.claim(9) == []

        await store.set(Hold(Held.SESSION, "chat", held=False))

        assert ids(await hand.claim(9)) == ["s-00000", "s-00001", "last"]

    async def test_a_disabled_task_is_refused_and_what_was_accepted_goes_on(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a"), new_run("s", session="chat")])
        await store.set(TaskDisabled("work", disabled=True))

        receipts = await store.submit([new_run("b"), new_run("c", session="talk"), new_run("d", delay=5)])
        [inside] = await store.submit([new_run("e", inside=True)])

        assert receipts == [Receipt(ReceiptOutcome.REFUSED, name, "task_disabled") for name in "bcd"]
        assert inside.outcome is ReceiptOutcome.ACCEPTED
        assert await counts(store) == {"refused task_disabled": 3}
        assert await session_of(store, "talk") is None
        assert await store.tasks() == [TaskState(name="work", disabled=True, workers=1)]
        assert sorted(await start_order(hand)) == ["a", "e", "s"]
        await store.set(TaskDisabled("work", disabled=False))
        assert (await store.submit([new_run("b")]))[0].outcome is ReceiptOutcome.ACCEPTED

    async def test_a_repeat_and_a_known_key_are_answered_though_the_task_is_disabled(self, store: Store) -> None:
        await store.submit([new_run("a", key="k")])
        await store.set(TaskDisabled("work", disabled=True))

        again, existing = await store.submit([new_run("a", key="k"), new_run("b", key="k")])

        assert again.outcome is ReceiptOutcome.ACCEPTED
        assert existing == Receipt(ReceiptOutcome.EXISTING, "a", state=RunState.PENDING)

    async def test_tasks_are_those_known_set_aside_or_ruled(self, store: Store) -> None:
        await Hand(store, "one", tasks={"work", "mail"}).register()
        two = await Hand(store, "two").register()
        await store.submit(new_runs(2, "scan", task="scan"))
        await two.claim(5)
        await store.set(TaskDisabled("zap", disabled=True))

        assert await store.tasks() == [
            TaskState(name="mail", workers=1),
            TaskState(name="scan", aside=2),
            TaskState(name="work", workers=2),
            TaskState(name="zap", disabled=True),
        ]
        await two.leave()
        assert TaskState(name="work", workers=1) in await store.tasks()

    async def test_depths_tell_where_what_waits(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit(
            [*new_runs(3, "s", session="chat"), new_run("later", delay=60), *new_runs(3, "ann", user="ann")]
        )
        assert (await hand.claim(9))[0].id
        await store.submit([new_run("ready"), new_run("scan", task="scan"), new_run("gone")])
        await store.change_run("c", "gone", Cancel())

        depths = await store.depths()

        assert depths.runs == (await store.depths()).runs
        assert (depths.ready, depths.parked, depths.held, depths.due) == (2, 2, 2, 1)
