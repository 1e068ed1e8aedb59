"""Why: every gate that is closed for a run, and only those."""

from __future__ import annotations

import pytest

from laneway.core.common.instants import instant
from laneway.core.records.policy import Lane, Mode, Rule, SessionPolicy
from laneway.core.records.run import Gate, Reason, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun
from laneway.ports.control import Pause, Resume
from laneway.ports.gates import Held
from laneway.ports.moves import Freeze, Reopen, Shut
from laneway.ports.settings import Hold, LaneSetting, SessionSetting, UserCap
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids
from tests.support.invariants import all_runs

# All that can be closed for one run; those that are paused are named as what they are.
GATES = ("due", "busy session", "full lane", "user at the cap", "worker", *(what.value for what in Held))
THERE = "redis://there"
MINE = Fields(user="ann", session="chat", lane="tight")


class TestWhy(Part):
    """`GateStore.why`."""

    async def test_a_run_that_may_start_waits_for_its_turn(self, store: Store) -> None:
        await Hand(store).register()
        await store.submit(new_runs(3, "r"))

        assert await store.why("r-00002") == [Reason(Gate.TURN, "lane main", ahead=2)]

    async def test_a_run_that_is_running_or_has_ended_has_none(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "r"))
        first, _ = await hand.claim(2)
        await hand.succeed(first)

        assert [await store.why(name) for name in ("r-00000", "r-00001")] == [[], []]
        with pytest.raises(UnknownRun):
            await store.why("nobody")

    async def test_not_due_says_when_it_opens(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("later", delay=5), new_run("again")])
        await hand.fail(*await hand.claim(1))
        again = await store.get("again")

        assert await store.why("later") == [Reason(Gate.NOT_DUE, opens_at=instant(clock.now() + 5_000_000))]
        assert await store.why("again") == [Reason(Gate.NOT_DUE, opens_at=again.due_at)]

    async def test_a_full_lane_names_its_runs(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=2)])
        await store.submit(new_runs(3, "r"))
        await hand.claim(9)

        assert await store.why("r-00002") == [Reason(Gate.LANE_FULL, "lane main", runs=("r-00000", "r-00001"))]

    async def test_a_user_at_the_cap_names_the_runs_of_that_lane(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([*new_runs(2, "ann", user="ann"), new_run("team", user="ann", lane="team")])
        await hand.claim(9)
        expected = [Reason(Gate.USER_AT_CAP, "user ann", runs=("ann-00000",))]

        assert await store.why("ann-00001") == expected
        await store.set(UserCap("ann", "main", 2))
        assert [reason.gate for reason in await store.why("ann-00001")] == [Gate.TURN]

    async def test_a_session_names_who_is_before_it(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        busy = "session chat"
        assert await store.why("s-00000") == [Reason(Gate.TURN, "lane main", ahead=0)]
        assert await store.why("s-00001") == [Reason(Gate.SESSION_BUSY, busy, runs=("s-00000",), ahead=1)]

        await hand.claim(9)

        runs = ("s-00000", "s-00001", "s-00002")
        assert await store.why("s-00002") == [Reason(Gate.SESSION_BUSY, busy, runs=runs[:2], ahead=2)]
        assert await store.why("s-00003") == [Reason(Gate.SESSION_BUSY, busy, runs=runs, ahead=3)]

    async def test_an_interrupt_waits_for_whom_it_cancelled(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat", max_concurrent=3)])
        await hand.claim(9)

        await store.submit([new_run("i", session="chat", policy=SessionPolicy(mode=Mode.INTERRUPT))])

        assert await store.why("i") == [Reason(Gate.SESSION_BUSY, "session chat", runs=("a",), ahead=1)]

    async def test_a_run_that_stepped_out_waits_for_those_that_are_active_not_for_the_queued(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat", policy=SessionPolicy(pass_on_retry=True)))
        [first] = await hand.claim(1)
        await hand.fail(first, room=1)
        busy = Reason(Gate.SESSION_BUSY, "session chat", runs=("s-00001",), ahead=1)

        assert (await store.why(first.id))[1:] == [busy]
        await clock.advance(5)
        await hand.step()
        assert await store.why(first.id) == [busy]
        ahead = Reason(Gate.SESSION_BUSY, "session chat", runs=("s-00001", "s-00000"), ahead=2)
        assert await store.why("s-00002") == [ahead]

    async def test_a_task_nobody_who_is_alive_knows(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a"), new_run("scan", task="scan")])

        assert await store.why("scan") == [Reason(Gate.NO_WORKER, "task scan")]
        await hand.leave()
        assert await store.why("a") == [Reason(Gate.NO_WORKER, "task work")]

    async def test_a_limit_per_worker_that_every_worker_has_reached(self, store: Store) -> None:
        one = await Hand(store, "one").register()
        await store.declare_lanes([Lane("main", worker_limit=1)])
        await store.submit(new_runs(2, "r"))
        await one.claim(9)

        assert await store.why("r-00001") == [Reason(Gate.LANE_FULL, "lane main per worker")]
        await Hand(store, "two").register()
        assert [reason.gate for reason in await store.why("r-00001")] == [Gate.TURN]

    @pytest.mark.parametrize(
        ("what", "name"), [(Held.LANE, "tight"), (Held.USER, "ann"), (Held.SESSION, "chat"), (Held.TASK, "work")]
    )
    async def test_what_is_paused_is_named(self, store: Store, what: Held, name: str) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("tight", limit=1)])
        await store.submit([new_run("a", **MINE)])

        await store.set(Hold(what, name, held=True))
        assert await store.why("a") == [Reason(Gate.PAUSED, f"{what} {name}")]
        assert await hand.claim(9) == []

        assert await store.why("a") == [Reason(Gate.PAUSED, f"{what} {name}")]

    async def test_a_paused_run_says_so(self, store: Store) -> None:
        await store.submit(new_runs(2, "s", session="chat"))
        await store.change_run("c", "s-00001", Pause())

        first, second = await store.why("s-00001")

        assert first == Reason(Gate.PAUSED, "run")
        assert second.gate is Gate.SESSION_BUSY

    async def test_a_store_that_is_shut_for_a_move_says_so_and_where_to(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a"), new_run("p"), new_run("r"), new_run("w")])
        await store.change_run("c", "p", Pause())
        claimed = {run.id: run for run in await hand.claim(3)}
        await hand.wait(claimed["w"], "go")
        await hand.release(claimed["a"])
        shut = Reason(Gate.SHUT, f"move to {THERE}")
        expected = {
            "a": [shut],
            "p": [shut, Reason(Gate.PAUSED, "run")],
            "r": [],
            "w": [shut, Reason(Gate.ANSWER, "question go")],
        }
        assert await store.why("a") == [Reason(Gate.TURN, "lane main", ahead=0)]

        await store.move(Shut("m", THERE))

        assert {name: await store.why(name) for name in expected} == expected
        assert await hand.claim(9) == []
        await hand.succeed(claimed["r"])
        assert (await store.move(Freeze("m"))).leases == 0
        assert {name: await store.why(name) for name in expected} == expected
        await store.move(Reopen("m"))
        assert await store.why("a") == [Reason(Gate.TURN, "lane main", ahead=0)]
        assert ids(await hand.claim(9)) == ["a"]

    async def test_a_run_on_its_last_chance_waits_while_every_worker_has_one(self, store: Store) -> None:
        heir = await Hand(store, "heir", tasks={"none"}).register()
        await store.submit([new_run("a"), new_run("b"), new_run("c")])
        await self._crash(store, heir, twice=["a", "b"])
        assert [(await store.get(name)).reason for name in ("a", "b", "c")] == ["last_chance", "last_chance", None]
        one = await Hand(store, "one").register()
        claimed = {run.id: run for run in await one.claim(3)}

        await one.snooze(claimed["b"], delay=5)
        await one.release(claimed["c"])

        held = Reason(Gate.LAST_CHANCE, "workers", runs=("a",))
        due = Reason(Gate.NOT_DUE, opens_at=(await store.get("b")).due_at)
        assert await store.why("b") == [due, held]
        assert await store.why("c") == [Reason(Gate.TURN, "lane main", ahead=0)]
        await store.change_run("p", "b", Pause())
        await store.change_run("r", "b", Resume())
        assert await store.why("b") == [due, held]
        await Hand(store, "two").register()
        assert await store.why("b") == [due]

    @pytest.mark.parametrize("end", ["success", "checkpoint", "death"])
    async def test_it_waits_until_the_other_has_ended_or_got_on(self, store: Store, end: str) -> None:
        heir = await Hand(store, "heir", tasks={"none"}).register()
        await store.submit([new_run("a"), new_run("b")])
        await self._crash(store, heir, twice=["a", "b"])
        one = await Hand(store, "one").register()
        a, b = sorted(await one.claim(2), key=lambda run: run.id)
        await one.release(b)
        assert await store.why("b") == [Reason(Gate.LAST_CHANCE, "workers", runs=("a",))]

        match end:
            case "success":
                await one.succeed(a)
            case "checkpoint":
                await one.save(a, 1)
            case "death":
                two = await Hand(store, "two").register()
                await one.leave()
                await two.reclaim()  # it settles that one, and does not execute it

        assert await store.why("b") == [Reason(Gate.TURN, "lane main", ahead=0)]

    async def _crash(self, store: Store, heir: Hand, *, twice: list[str]) -> None:
        """Let two workers die that have started all there is; those that are not named are given back before."""
        for index in range(2):
            dead = await Hand(store, f"dead{index}").register()
            claimed = await dead.claim(9)
            await dead.release(*(run for run in claimed if run.id not in twice))
            await dead.leave()
            await heir.lapse(*(await heir.reclaim()).lapsed)

    @pytest.mark.parametrize("left", [*GATES, None])
    async def test_only_with_every_gate_open_does_a_run_start(
        self, store: Store, clock: FakeClock, left: str | None
    ) -> None:
        await store.set(LaneSetting(Lane("lane", limit=1, per_user=1)))
        busy = await Hand(store, "busy", tasks={"task"}).register()
        fields = Fields(user="user", session="session", lane="lane", task="task")
        await store.submit([new_run("active", **fields)])
        assert len(await busy.claim(1)) == 1
        await busy.leave()
        await store.submit([new_run("wanted", **fields | Fields(delay=5))])
        for what in Held:
            await store.set(Hold(what, what.value, held=True))
        assert len(await store.why("wanted")) == len(GATES)

        taker = await Hand(store, "taker", tasks={"other"} if left == "worker" else {"task"}).register()
        for gate in GATES:
            if gate != left:
                await self._open(store, clock, gate)

        [reason] = await store.why("wanted")
        assert (reason.gate is Gate.TURN) == (left is None)
        assert ids(await taker.claim(9)) == ([] if left else ["wanted"])

    async def _open(self, store: Store, clock: FakeClock, gate: str) -> None:
        """Open one of the gates; who takes the run opens `worker`."""
        match gate:
            case "due":
                await clock.advance(5)
            case "busy session":
                await store.set(SessionSetting("session", Rule(max_concurrent=2)))
            case "full lane":
                await store.set(LaneSetting(Lane("lane", limit=2, per_user=1)))
            case "user at the cap":
                await store.set(UserCap("user", "lane", 2))
            case Held.LANE | Held.USER | Held.SESSION | Held.TASK:
                await store.set(Hold(Held(gate), gate, held=False))

    async def test_every_pending_run_of_a_busy_scene_has_a_reason(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("tight", limit=2, per_user=1, worker_limit=2)])
        users, sessions = ("ann", "bob", None), ("chat", "talk", None)
        policies = {None: None, "chat": SessionPolicy(pass_on_retry=True), "talk": SessionPolicy(max_concurrent=2)}
        await store.submit(
            [
                new_run(
                    f"{user}-{session}-{lane}-{delay}",
                    user=user,
                    session=session,
                    lane=lane,
                    delay=delay,
                    policy=policies[session],
                )
                for user in users
                for session in sessions
                for lane in ("tight", "main")
                for delay in (0, 5)
            ]
        )
        await store.submit(
            [new_run("scan", task="scan"), new_run("w", session="talk", policy=SessionPolicy(debounce=3))]
        )
        await store.set(Hold(Held.USER, "bob", held=True))

        for room in (3, 2, 9):
            claimed = await hand.claim(room)
            await self._all_have_reasons(store)
            await hand.fail(*claimed[:1])
            await self._all_have_reasons(store)
            await hand.succeed(*claimed[1:])
            await self._all_have_reasons(store)
            await clock.advance(3)
            await self._all_have_reasons(store)

    async def _all_have_reasons(self, store: Store) -> None:
        for run in await all_runs(store, RunFilter(state=RunState.PENDING)):
            assert await store.why(run.id), run
        for run in await all_runs(store):
            assert run.state in (RunState.PENDING, RunState.PAUSED) or await store.why(run.id) == []
