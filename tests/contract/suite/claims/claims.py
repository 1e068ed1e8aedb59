"""Claiming: leases, fences, limits, tasks that a worker does not know, and lanes side by side."""

from __future__ import annotations

from collections import Counter

import pytest

from laneway.core.common.instants import instant
from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import TASK, Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, kinds, start_order, states, widen


class TestClaims(Part):
    """What `WorkerStore.step` claims."""

    async def test_a_claim_raises_the_fence_and_is_the_started_event(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store, "w1").register()
        await store.submit([new_run("a")])
        await clock.advance(3)

        [claimed] = await hand.claim()

        run = await store.get("a")
        assert claimed.fence == run.fence == 1
        assert (run.state, run.worker, run.started_at) == (RunState.RUNNING, "w1", instant(clock.now()))
        [event] = await store.events("a")
        assert (event.seq, event.kind, event.data) == (1, "started", {"worker": "w1"})
        assert (event.run_id, event.attempt, event.at) == ("a", 1, instant(clock.now()))

    async def test_a_claimed_run_holds_what_its_worker_needs(self, store: Store) -> None:
        hand = await Hand(store, "w1").register()
        new = new_run("a", args={"n": 1}, lane="team", user="ann", session="chat", priority=3)
        await store.submit([new])

        [claimed] = await hand.claim()

        number = (await store.get("a")).number
        assert claimed == Claimed(number, "a", TASK, new.args, 1, 1, 0, "team", "ann", "chat", 3, "w1", lapsed=False)

    async def test_a_run_that_is_claimed_again_has_a_higher_fence(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        fences = []

        for _ in range(4):
            [claimed] = await hand.claim()
            fences.append(claimed.fence)
            await hand.release(claimed)

        assert fences == [1, 2, 3, 4]

    async def test_nothing_is_claimed_beyond_the_room(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "r"))

        assert await hand.claim(0) == []
        assert len(await hand.claim(2)) == 2
        assert (await store.depths()).runs == {"pending": 3, "running": 2}

    async def test_a_run_is_claimed_by_one_worker_only(self, store: Store) -> None:
        one, two = await Hand(store, "one").register(), await Hand(store, "two").register()
        await store.submit(new_runs(5, "r"))

        mine, yours = await one.claim(3), await two.claim(3)

        assert ids(mine) == ["r-00000", "r-00001", "r-00002"]
        assert ids(yours) == ["r-00003", "r-00004"]
        assert [run.worker for run in yours] == ["two", "two"]

    async def test_runs_without_a_user_start_in_the_order_of_acceptance(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("b"), new_run("a")])
        await store.submit([new_run("c")])

        assert ids(await hand.claim(3)) == ["b", "a", "c"]

    async def test_a_lanes_limit_holds_across_workers(self, store: Store) -> None:
        one, two = await Hand(store, "one").register(), await Hand(store, "two").register()
        await store.declare_lanes([Lane("main", limit=3)])
        await store.submit(new_runs(6, "r"))

        mine, yours = await one.claim(2), await two.claim(5)

        assert (len(mine), len(yours)) == (2, 1)
        assert await one.claim(1) == []
        assert (await store.depths()).runs == {"pending": 3, "running": 3}

    async def test_a_full_lane_does_not_hold_up_another(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1)])
        await store.submit([*new_runs(3, "main"), *new_runs(3, "team", lane="team")])

        claimed = await hand.claim(10)

        assert Counter(run.lane for run in claimed) == {"main": 1, "team": 3}

    async def test_a_result_frees_its_slot_for_the_claim_of_the_same_step(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", limit=1)])
        await store.submit([new_run("a"), new_run("b")])
        claimed = await hand.claim(2)

        reply = await hand.succeed(*claimed, room=2)

        assert ids(reply.claimed) == ["b"]

    async def test_many_hundreds_can_be_claimed_and_settled_in_one_step(self, store: Store) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit(new_runs(701, "r"))

        claimed = await hand.claim(1000)
        reply = await hand.succeed(*claimed)

        assert ids(claimed) == [f"r-{index:05d}" for index in range(701)]
        assert reply.refused == []
        assert (await store.depths()).runs == {"succeeded": 701}

    async def test_an_incarnation_that_did_not_register_claims_nothing(self, store: Store) -> None:
        await store.submit([new_run("a")])

        with pytest.raises(LeaseLost):
            await Hand(store, "stranger").claim()

        assert await states(store, "a") == [RunState.PENDING]

    async def test_a_worker_gets_only_runs_of_tasks_it_knows(self, store: Store) -> None:
        hand = await Hand(store, tasks={"mail"}).register()
        await store.submit([new_run("a", task="scan"), new_run("b", task="mail"), new_run("c", task="scan")])

        assert ids(await hand.claim(3)) == ["b"]
        assert await states(store, "a", "c") == [RunState.PENDING] * 2
        assert await kinds(store, "a") == []
        assert (await store.get("a")).fence == 0

    async def test_runs_of_unknown_tasks_do_not_hold_up_those_behind_them(self, store: Store) -> None:
        hand = await Hand(store, tasks={"mail"}).register()
        await store.submit([*new_runs(1200, "scan", task="scan"), new_run("mail", task="mail")])
        found: list[str] = []

        for _ in range(10):
            reply = await hand.step(room=1)
            found += ids(reply.claimed)
            if not reply.more:
                break

        assert found == ["mail"]

    async def test_a_run_set_aside_starts_first_when_a_worker_that_knows_it_asks(self, store: Store) -> None:
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        both = await Hand(store, "both", tasks={"mail", "scan"}).register()
        await store.submit([new_run("a", task="scan"), new_run("b", task="scan"), *new_runs(5, "m", task="mail")])
        assert ids(await mailer.claim(3)) == ["m-00000", "m-00001", "m-00002"]

        order = await start_order(both)

        assert order == ["a", "b", "m-00003", "m-00004"]

    async def test_a_run_set_aside_neither_loses_nor_gains_a_turn(self, store: Store) -> None:
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        both = await Hand(store, "both", tasks={"mail", "scan"}).register()
        await widen(store)
        runs = [
            new_run(f"{user}{index}", task="scan" if (index + len(user)) % 2 else "mail", user=user)
            for user in ("ann", "bo", "cyril")
            for index in range(4)
        ]
        await store.submit(runs)
        aside = await mailer.claim(1)
        await mailer.release(*aside)

        order = await start_order(both)

        turns = [int(run_id[-1]) for run_id in order if run_id != aside[0].id]
        assert turns == sorted(turns)

    async def test_a_run_set_aside_waits_for_its_users_cap_like_any_other(self, store: Store) -> None:
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        both = await Hand(store, "both", tasks={"mail", "scan"}).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([new_run("scan", task="scan", user="ann"), new_run("mail", task="mail", user="ann")])

        claimed = await mailer.claim(2)
        assert ids(claimed) == ["mail"]
        assert await both.claim(2) == []
        await mailer.succeed(*claimed)

        assert ids(await both.claim(2)) == ["scan"]

    async def test_a_run_set_aside_is_not_in_the_ready_order(self, store: Store) -> None:
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        await store.submit(new_runs(2, "scan", task="scan"))

        await mailer.claim(1)

        [main] = [state for state in await store.lanes() if state.lane.name == "main"]
        assert (main.active, main.ready) == (0, 0)

    async def test_lanes_share_a_workers_room_equally(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(
            [*new_runs(20, "main"), *new_runs(20, "team", lane="team"), *new_runs(20, "cron", lane="cron")]
        )

        claimed = await hand.claim(9)

        assert Counter(run.lane for run in claimed) == {"main": 3, "team": 3, "cron": 3}

    async def test_room_that_a_lane_leaves_goes_to_the_others(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(20, "main"), new_run(lane="team"), *new_runs(20, "cron", lane="cron")])

        claimed = await hand.claim(11)

        assert len(claimed) == 11
        assert Counter(run.lane for run in claimed)["team"] == 1

    @pytest.mark.parametrize("calls_between", [0, 1, 2, 3])
    async def test_a_worker_with_room_for_one_starves_no_lane(self, store: Store, calls_between: int) -> None:
        hand = await Hand(store).register()
        lanes = ["main", "team", "cron", "delivery"]
        await store.submit([new for lane in lanes for new in new_runs(40, lane, lane=lane)])
        started: Counter[str] = Counter()

        for _ in range(40):
            [claimed] = await hand.claim(1)
            started[claimed.lane] += 1
            for _ in range(calls_between):
                await hand.emit(claimed, "log", {"text": "still here"})
            await hand.succeed(claimed)

        assert min(started[lane] for lane in lanes) >= 5, started
