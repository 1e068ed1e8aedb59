"""Sessions: runs of one conversation start in order, at most so many at once."""

from __future__ import annotations

import pytest

from laneway.core.records.policy import Lane
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.frame import Part, ids, start_order, widen
from tests.support.sessions import session_of


async def standing(store: Store, session: str = "chat") -> tuple[int | None, int, int]:
    """Return how many runs of the session may be active at once, and how many are active and queued."""
    state = await session_of(store, session)
    assert state is not None
    return state.rule.max_concurrent, state.active, state.queued


class TestSessions(Part):
    """`SessionStore`, and admission inside `submit` and `step`."""

    async def test_a_sessions_runs_start_one_at_a_time_in_the_order_of_acceptance(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("b", session="chat"), new_run("a", session="chat")])
        await store.submit([new_run("c", session="chat")])
        order: list[str] = []

        claimed = await hand.claim(9)
        while claimed:
            assert len(claimed) == 1
            order += ids(claimed)
            claimed = (await hand.succeed(*claimed, room=9)).claimed

        assert order == ["b", "a", "c"]

    async def test_a_busy_session_does_not_hold_up_its_lane(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([*new_runs(600, "chat", session="chat", user="ann"), new_run("other", user="ann")])

        assert ids(await hand.claim(5)) == ["chat-00000", "other"]

    async def test_sessions_go_on_side_by_side(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run(f"{name}{index}", session=name) for name in "xyz" for index in range(2)])

        assert ids(await hand.claim(9)) == ["x0", "y0", "z0"]

    async def test_a_session_may_admit_several_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "s", session="chat", max_concurrent=2))

        first, second = await hand.claim(9)
        reply = await hand.succeed(second, room=9)

        assert ids([first, second]) == ["s-00000", "s-00001"]
        assert ids(reply.claimed) == ["s-00002"]
        assert await standing(store) == (2, 2, 2)

    async def test_what_a_session_holds_can_be_seen(self, store: Store) -> None:
        hand = await Hand(store).register()
        assert await session_of(store, "chat") is None

        await store.submit(new_runs(3, "s", session="chat"))
        assert await standing(store) == (1, 0, 3)
        claimed = await hand.claim(9)
        assert await standing(store) == (1, 1, 2)
        claimed = (await hand.succeed(*claimed, room=9)).claimed
        assert await standing(store) == (1, 1, 1)

    async def test_an_idle_session_disappears_and_forgets_its_concurrency(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat", max_concurrent=3))
        claimed = await hand.claim(9)
        assert len(claimed) == 3

        await hand.succeed(*claimed)
        assert await session_of(store, "chat") is None
        await store.submit(new_runs(3, "t", session="chat"))

        assert await standing(store) == (1, 0, 3)

    async def test_the_last_given_concurrency_stays(self, store: Store) -> None:
        await store.submit([new_run(session="chat", max_concurrent=4)])

        await store.submit([new_run(session="chat")])

        state = await session_of(store, "chat")
        assert state is not None
        assert state.rule.max_concurrent == 4

    async def test_a_raised_concurrency_lets_those_that_wait_start_in_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat"))
        await hand.claim(9)

        await store.submit([new_run("last", session="chat", max_concurrent=4)])

        assert ids(await hand.claim(9)) == ["s-00001", "s-00002", "s-00003"]

    async def test_a_lowered_concurrency_stops_nothing_and_holds_new_starts(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        first, second = await hand.claim(9)

        await store.submit([new_run("last", session="chat", max_concurrent=1)])

        assert (await hand.succeed(first, room=9)).claimed == []
        assert ids((await hand.succeed(second, room=9)).claimed) == ["s-00002"]

    async def test_a_place_is_kept_while_the_run_waits_for_its_retry(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat"))
        [first] = await hand.claim(9)

        assert (await hand.fail(first, room=9)).claimed == []
        assert await standing(store) == (1, 1, 2)
        await clock.advance(60)

        assert await start_order(hand) == ["s-00000", "s-00001", "s-00002"]

    async def test_a_place_is_kept_through_a_release(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat"))

        await hand.release(*await hand.claim(9))

        assert await standing(store) == (1, 1, 2)
        assert await start_order(hand) == ["s-00000", "s-00001", "s-00002"]

    async def test_a_place_is_kept_through_a_lapse(self, store: Store) -> None:
        dead, heir = await Hand(store, "dead").register(), await Hand(store, "heir").register()
        await store.submit(new_runs(3, "s", session="chat"))
        await dead.claim(9)
        await dead.leave()

        lapsed = (await heir.reclaim()).lapsed
        assert await standing(store) == (1, 1, 2)
        await heir.lapse(*lapsed)

        assert await standing(store) == (1, 1, 2)
        assert await start_order(heir) == ["s-00000", "s-00001", "s-00002"]

    async def test_a_run_that_failed_for_good_lets_the_next_one_start(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        [first] = await hand.claim(9)

        reply = await hand.fail(first, failure=error(kind="bad_result"), room=9)

        assert ids(reply.claimed) == ["s-00001"]

    async def test_a_delayed_run_joins_at_the_tail_when_it_is_due(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("delayed", session="chat", delay=5), new_run("a", session="chat")])
        assert await standing(store) == (1, 0, 1)
        await store.submit([new_run("b", session="chat")])

        await clock.advance(5)
        await hand.step()
        assert await standing(store) == (1, 0, 3)
        await store.submit([new_run("c", session="chat")])

        assert await start_order(hand) == ["a", "b", "delayed", "c"]

    async def test_a_run_of_the_future_is_no_part_of_its_session_yet(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()

        await store.submit([new_run("delayed", session="chat", max_concurrent=3, delay=5)])
        assert await session_of(store, "chat") is None
        await clock.advance(5)
        await hand.step()

        assert await standing(store) == (3, 0, 1)

    async def test_runs_start_in_the_order_they_became_due_though_nobody_looked(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("second", session="chat", delay=4), new_run("first", session="chat", delay=2)])

        await clock.advance(5)
        [receipt] = await store.submit([new_run("third", session="chat")])

        assert receipt.position == 2
        assert await start_order(hand) == ["first", "second", "third"]

    async def test_due_order_holds_though_more_are_due_than_one_call_moves(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await widen(store)
        await store.submit([*new_runs(1100, "r", delay=1), new_run("first", session="chat", delay=2)])

        await clock.advance(5)
        await store.submit([new_run("second", session="chat")])
        started: list[str] = []
        for _ in range(5):
            started += [run.id for run in await hand.claim(2000) if run.session]
        claimed = await store.get("first")
        assert (claimed.fence, started) == (1, ["first"])

    async def test_one_session_across_lanes_and_priorities_starts_in_order(self, store: Store) -> None:
        hand = await Hand(store).register()
        lanes = ["main", "team", "cron", "main", "delivery", "team"]
        runs = [
            new_run(f"s{index}", session="chat", lane=lane, priority=index * 10, user=f"user{index % 2}")
            for index, lane in enumerate(lanes)
        ]

        await store.submit(runs)

        assert await start_order(hand) == [f"s{index}" for index in range(6)]

    @pytest.mark.parametrize("room", [1, 2, 9])
    async def test_several_at_once_across_lanes_and_priorities_still_start_in_order(
        self, store: Store, room: int
    ) -> None:
        hand = await Hand(store).register()
        lanes = ["main", "team", "cron"] * 4
        runs = [
            new_run(f"s{index:02d}", session="chat", lane=lane, priority=index * 5, max_concurrent=3)
            for index, lane in enumerate(lanes)
        ]
        await store.submit(runs)
        order: list[str] = []

        while len(order) < len(runs):
            claimed = await hand.claim(room)
            assert claimed
            order += ids(claimed)
            await hand.succeed(*claimed)

        assert order == sorted(order)

    async def test_a_run_held_by_its_users_cap_holds_those_behind_it(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.declare_lanes([Lane("main", per_user=1)])
        await store.submit([new_run("busy", user="ann")])
        busy = await hand.claim(1)
        await store.submit(
            [
                new_run("s1", session="chat", user="ann", max_concurrent=5),
                new_run("s2", session="chat", user="bob"),
                new_run("s3", session="chat", lane="team"),
            ]
        )

        assert await hand.claim(9) == []
        reply = await hand.succeed(*busy, room=9)

        assert [*ids(reply.claimed), *ids(await hand.claim(9))] == ["s1", "s2", "s3"]

    async def test_a_run_no_worker_knows_holds_those_behind_it(self, store: Store) -> None:
        mailer = await Hand(store, "mailer", tasks={"mail"}).register()
        both = await Hand(store, "both", tasks={"mail", "scan"}).register()
        await store.submit([new_run("s1", session="chat", task="scan"), new_run("s2", session="chat", task="mail")])

        assert await mailer.claim(9) == []

        assert await start_order(both) == ["s1", "s2"]

    async def test_positions_count_what_is_admitted_and_what_waits(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        await hand.claim(9)

        [receipt] = await store.submit([new_run(session="chat")])

        assert receipt.position == 4
