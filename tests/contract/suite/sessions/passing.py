"""Passing: a session that lets the next go ahead of a run that waits for its next attempt."""

from __future__ import annotations

import pytest

from laneway.core.records.policy import SessionPolicy
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, start_order, states
from tests.contract.suite.sessions.sessions import standing
from tests.support.sessions import session_of

PASSING = Fields(session="chat", policy=SessionPolicy(pass_on_retry=True, cap=1000))


class TestPassing(Part):
    """`SessionPolicy.pass_on_retry`."""

    async def test_the_next_goes_ahead_and_the_retry_is_before_those_that_wait(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", **PASSING))
        [first] = await hand.claim(9)

        [second] = (await hand.fail(first, room=9)).claimed
        assert second.id == "s-00001"
        assert await standing(store) == (1, 2, 2)
        await clock.advance(60)

        assert await hand.claim(9) == []
        assert await standing(store) == (1, 2, 2)
        assert ids((await hand.succeed(second, room=9)).claimed) == ["s-00000"]

    async def test_without_it_the_next_waits(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))

        assert (await hand.fail(*await hand.claim(1), room=9)).claimed == []

    async def test_a_retry_that_finds_room_goes_on_at_once(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", **PASSING)])
        await hand.fail(*await hand.claim(1))
        await clock.advance(60)

        assert ids(await hand.claim(9)) == ["a"]
        assert await standing(store) == (1, 1, 0)

    async def test_a_snooze_steps_out_and_a_release_and_a_lapse_do_not(self, store: Store, clock: FakeClock) -> None:
        dead, hand = await Hand(store, "dead").register(), await Hand(store).register()
        await store.submit(new_runs(3, "s", **PASSING))
        claimed = await dead.claim(1)
        assert ids((await dead.release(*claimed, room=9)).claimed) == ["s-00000"]
        await dead.leave()
        lapsed = (await hand.reclaim()).lapsed
        [first] = (await hand.lapse(*lapsed, room=9)).claimed
        assert first.id == "s-00000"

        reply = await hand.snooze(first, delay=5, room=9)

        assert ids(reply.claimed) == ["s-00001"]
        await clock.advance(5)
        await hand.step()
        assert ids((await hand.succeed(*reply.claimed, room=9)).claimed) == ["s-00000"]

    @pytest.mark.parametrize("most", [1, 2, 3])
    async def test_a_session_never_has_more_live_runs_than_it_may(
        self, store: Store, clock: FakeClock, most: int
    ) -> None:
        hand = await Hand(store).register()
        policy = SessionPolicy(pass_on_retry=True, max_concurrent=most, cap=1000)
        await store.submit(new_runs(6, "s", session="chat", policy=policy))
        failures = {f"s-{index:05d}" for index in range(0, 6, 2)}
        fresh: list[str] = []

        claimed = await hand.claim(9)
        while (await store.depths()).runs.get("succeeded") != 6:
            running = (await store.depths()).runs.get("running", 0)
            assert len(claimed) == running <= most
            fresh += [run.id for run in claimed if run.fence == 1]
            failed = [run for run in claimed if run.id in failures]
            failures -= {run.id for run in failed}
            done = [run for run in claimed if run not in failed]
            await hand.fail(*failed)
            await clock.advance(10)
            claimed = (await hand.succeed(*done, room=9)).claimed

        assert fresh == sorted(fresh)
        assert await session_of(store, "chat") is None

    async def test_a_run_outside_can_be_paused_resumed_and_cancelled(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", **PASSING))
        [first] = await hand.claim(1)
        [second] = (await hand.fail(first, room=9)).claimed
        await store.change_run("c1", first.id, Pause())
        assert await standing(store) == (1, 2, 1)
        await clock.advance(60)
        await store.change_run("c2", first.id, Resume())
        assert await standing(store) == (1, 2, 1)

        await store.change_run("c3", first.id, Cancel())

        assert await standing(store) == (1, 1, 1)
        assert ids((await hand.succeed(second, room=9)).claimed) == ["s-00002"]

    async def test_a_run_paused_while_it_waits_to_come_back_keeps_its_place(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", **PASSING))
        [first] = await hand.claim(1)
        [second] = (await hand.fail(first, room=9)).claimed
        await clock.advance(60)
        await hand.step()
        await store.change_run("c1", first.id, Pause())

        assert (await hand.succeed(second, room=9)).claimed == []
        await store.change_run("c2", first.id, Resume())

        assert await start_order(hand) == ["s-00000", "s-00002"]

    async def test_a_rule_taken_back_lets_those_outside_come_back(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", **PASSING))
        [first] = await hand.claim(1)
        [second] = (await hand.fail(first, room=9)).claimed
        policy = SessionPolicy(pass_on_retry=False)
        await store.submit([new_run("last", session="chat", policy=policy)])

        assert (await hand.fail(second, room=9)).claimed == []
        await clock.advance(60)

        assert await start_order(hand) == ["s-00001", "s-00000", "s-00002", "last"]
        assert await states(store, "s-00000") == [RunState.SUCCEEDED]
