"""Due times: delays and instants, the order in which runs become due, and what a worker is told of them."""

from __future__ import annotations

from laneway.core.common.instants import SECOND, instant
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, start_order, states, widen
from tests.support.sessions import session_of


class TestDueTimes(Part):
    """What `NewRun.delay` and `due_at` mean."""

    async def test_a_delayed_run_starts_at_its_due_time_and_not_before(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", delay=10)])
        due_at = clock.now() + 10 * SECOND

        await clock.advance(9.999999)
        assert await hand.claim() == []
        assert await states(store, "a") == [RunState.PENDING]
        await clock.advance(0.000001)

        assert ids(await hand.claim()) == ["a"]
        run = await store.get("a")
        assert (run.due_at, run.started_at) == (instant(due_at), instant(due_at))

    async def test_an_instant_is_kept_to_the_microsecond(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        at = clock.now() + 1_234_567

        await store.submit([new_run("a", due_at=at)])

        assert (await store.get("a")).due_at == instant(at)
        assert (await hand.step(room=1)).due_in == 1_234_567
        await clock.advance(1.234567)
        assert ids(await hand.claim()) == ["a"]

    async def test_an_instant_in_the_past_is_due_when_it_is_accepted(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()

        await store.submit([new_run("a", due_at=clock.now() - 3600 * SECOND)])

        assert (await store.get("a")).due_at == instant(clock.now())
        assert ids(await hand.claim()) == ["a"]

    async def test_runs_start_in_the_order_they_became_due(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("c", delay=3), new_run("a", delay=1), new_run("b", delay=2)])

        await clock.advance(5)

        assert await start_order(hand) == ["a", "b", "c"]

    async def test_runs_due_at_the_same_instant_start_in_the_order_of_acceptance(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        at = clock.now() + SECOND
        await store.submit([new_run("b", due_at=at), new_run("a", delay=1), new_run("c", due_at=at)])

        await clock.advance(1)

        assert await start_order(hand) == ["b", "a", "c"]

    async def test_a_worker_is_told_when_the_next_run_is_due(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        assert (await hand.step(room=1)).due_in is None
        await store.submit([new_run("b", delay=30), new_run("a", delay=10)])

        assert (await hand.step(room=1)).due_in == 10 * SECOND
        await clock.advance(4)
        assert (await hand.step()).due_in == 6 * SECOND
        await clock.advance(6)
        reply = await hand.step(room=1)
        assert (ids(reply.claimed), reply.due_in) == (["a"], 20 * SECOND)
        await clock.advance(20)
        assert (await hand.step(room=1)).due_in is None

    async def test_a_retry_is_a_due_time_like_any_other(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        claimed = await hand.claim()

        reply = await hand.fail(*claimed)

        retry_in = hand.policy.retry.delay_before(2, "a")
        assert reply.due_in == retry_in

    async def test_the_answer_holds_the_time_of_the_store(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await clock.advance(12.5)

        assert (await hand.step()).now == clock.now()
        assert hand.renew().now == clock.now()

    async def test_a_step_without_room_makes_runs_due_all_the_same(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", delay=1, session="chat")])
        await clock.advance(1)

        await hand.step()

        [main] = [state for state in await store.lanes() if state.lane.name == "main"]
        assert main.ready == 1
        assert await session_of(store, "chat") is not None

    async def test_delayed_runs_take_turns_from_when_they_are_due(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("late", user="bob", delay=1), *new_runs(50, "ann", user="ann")])
        await hand.succeed(*await hand.claim(10))

        await clock.advance(1)

        assert "late" in ids(await hand.claim(2))

    async def test_many_hundreds_due_at_once_all_start_in_order(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit(new_runs(1100, "r", delay=1))
        await clock.advance(1)

        replies = [await hand.step(room=1000) for _ in range(4)]

        order = [run_id for reply in replies for run_id in ids(reply.claimed)]
        assert order == [f"r-{index:05d}" for index in range(1100)]
        assert replies[-1].due_in is None

    async def test_a_wall_clock_that_was_set_on_makes_runs_due(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", delay=3600)])

        clock.step(3600)

        assert ids(await hand.claim()) == ["a"]

    async def test_a_wall_clock_that_was_set_back_holds_up_only_what_was_not_due(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("now"), new_run("later", delay=10)])

        clock.step(-3600)

        assert ids(await hand.claim(2)) == ["now"]
        assert (await hand.step()).due_in == 3610 * SECOND
