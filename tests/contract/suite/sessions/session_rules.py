"""Given: what belongs to a session rather than to one message, who gives it, and who wins."""

from __future__ import annotations

import pytest

from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.policy import DEFAULT_RULE, Drop, Lane, Mode, Rule, SessionPolicy, WhenFull
from laneway.core.records.run import Receipt, ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.ports.control import Pause, Resume
from laneway.ports.settings import SessionSetting
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, counts, ids, kinds, reason, start_order, states
from tests.support.sessions import session_of

ACCEPTED, REFUSED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.REFUSED
P, R, D = RunState.PENDING, RunState.RUNNING, RunState.DROPPED


class TestSessionRules(Part):
    """`SessionPolicy.rule` and `SessionStore.set_session`."""

    async def test_a_full_session_drops_its_oldest_queued_run(self, store: Store) -> None:
        hand = await Hand(store).register()
        policy = SessionPolicy(cap=2)
        await store.submit([new_run(name, session="chat", policy=policy) for name in "ab"])
        await hand.claim(1)

        receipts = await store.submit([new_run(name, session="chat", policy=policy) for name in "cd"])

        assert receipts == [Receipt(ACCEPTED, "c", position=2), Receipt(ACCEPTED, "d", position=2)]
        assert await states(store, "a", "b", "c", "d") == [R, D, P, P]
        assert await reason(store, "b") == "session_full"
        assert (await store.events("b"))[0].data == {"reason": "session_full"}
        assert await counts(store) == {"dropped session_full": 1}

    async def test_a_full_session_that_drops_the_new_refuses_it(self, store: Store) -> None:
        policy = SessionPolicy(cap=2, drop=Drop.NEW)

        receipts = await store.submit([new_run(name, session="chat", policy=policy) for name in "abc"])

        assert receipts[2] == Receipt(REFUSED, "c", "session_full")
        assert (await store.depths()).runs == {"pending": 2}
        assert await counts(store) == {"refused session_full": 1}

    async def test_a_lowered_cap_drops_as_many_as_are_too_many(self, store: Store) -> None:
        await store.submit(new_runs(5, "s", session="chat"))

        await store.submit([new_run("new", session="chat", policy=SessionPolicy(cap=2))])

        assert (await store.depths()).runs == {"dropped": 4, "pending": 2}
        assert await states(store, "s-00004", "new") == [P, P]

    async def test_the_default_cap_is_ten(self, store: Store) -> None:
        await store.submit([new_run(f"s{index:02d}", session="chat", policy=SessionPolicy()) for index in range(12)])

        assert (await store.depths()).runs == {"dropped": 2, "pending": 10}

    async def test_paused_runs_count_and_can_be_dropped(self, store: Store) -> None:
        await store.submit(new_runs(3, "s", session="chat"))
        await store.change_run("c1", "s-00000", Pause())
        await store.change_run("c2", "s-00001", Pause())

        await store.submit([new_run("new", session="chat", policy=SessionPolicy(cap=2))])

        assert await states(store, "s-00000", "s-00001", "s-00002", "new") == [D, D, P, P]
        assert await kinds(store, "s-00001") == ["paused", "dropped", "done"]

    async def test_a_run_that_joins_later_is_not_dropped_by_the_cap(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("later", session="chat", delay=5, policy=SessionPolicy(cap=1))])
        await store.submit([new_run("a", session="chat", policy=SessionPolicy(cap=1))])

        await clock.advance(5)
        await hand.step()

        assert await states(store, "later", "a") == [P, P]

    async def test_what_was_given_last_stays(self, store: Store) -> None:
        await store.submit([new_run(session="chat", policy=SessionPolicy(cap=3, max_concurrent=2))])
        await store.submit([new_run(session="chat", policy=SessionPolicy(drop=Drop.NEW))])

        await store.submit([new_run(session="chat", policy=SessionPolicy(max_concurrent=4))])

        state = await session_of(store, "chat")
        assert state is not None
        assert state.rule == Rule(max_concurrent=4, cap=3, drop=Drop.NEW).over(DEFAULT_RULE)
        assert state.ruled == Rule()

    @pytest.mark.parametrize("mode", [Mode.QUEUE, Mode.INTERRUPT])
    async def test_what_was_given_stays_when_the_last_run_makes_way(self, store: Store, mode: Mode) -> None:
        await store.submit([new_run("a", session="chat", policy=SessionPolicy(cap=1, drop=Drop.OLD, max_concurrent=3))])

        await store.submit([new_run("b", session="chat", policy=SessionPolicy(mode=mode, pass_on_retry=True))])

        assert await states(store, "a", "b") == [D, P]
        state = await session_of(store, "chat")
        assert state is not None
        assert state.rule == Rule(max_concurrent=3, cap=1, drop=Drop.OLD, pass_on_retry=True).over(DEFAULT_RULE)

    async def test_an_operator_wins_and_is_remembered_while_the_session_is_idle(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.set(SessionSetting("chat", Rule(cap=3)))
        assert await session_of(store, "chat") is not None

        await store.submit([new_run("a", session="chat", policy=SessionPolicy(cap=9, max_concurrent=2))])
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.rule.cap, state.rule.max_concurrent, state.ruled) == (3, 2, Rule(cap=3))
        await start_order(hand)

        state = await session_of(store, "chat")
        assert state is not None
        assert (state.rule, state.ruled) == (Rule(cap=3).over(DEFAULT_RULE), Rule(cap=3))
        assert [session.name for session in await store.sessions()] == ["chat"]

    async def test_what_an_operator_sets_adds_up_until_it_is_taken_back(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", policy=SessionPolicy(cap=9))])
        await store.set(SessionSetting("chat", Rule(cap=3)))
        await store.set(SessionSetting("chat", Rule(max_concurrent=2)))
        state = await session_of(store, "chat")
        assert state is not None
        assert state.ruled == Rule(cap=3, max_concurrent=2)

        await store.set(SessionSetting("chat", Rule()))

        state = await session_of(store, "chat")
        assert state is not None
        assert (state.ruled, state.rule.cap, state.rule.max_concurrent) == (Rule(), 9, 1)

    async def test_more_room_takes_effect_at_once(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat"))
        await hand.claim(9)

        await store.set(SessionSetting("chat", Rule(max_concurrent=3)))

        assert ids(await hand.claim(9)) == ["s-00001", "s-00002"]

    async def test_a_message_that_is_taken_gives_its_rules_too(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "s", session="chat"))
        await hand.claim(9)

        await store.submit([new_run("m", session="chat", policy=SessionPolicy(mode=Mode.STEER, max_concurrent=3))])

        assert ids(await hand.claim(9)) == ["s-00001", "s-00002"]

    async def test_a_throttled_session_starts_one_at_a_time_until_it_is_told_otherwise(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "s", session="chat", max_concurrent=2))
        first, second = await hand.claim(9)

        await store.set(SessionSetting("chat", Rule(), throttled=True))

        state = await session_of(store, "chat")
        assert state is not None
        assert (state.throttled, state.rule.max_concurrent) == (True, 2)
        assert (await hand.succeed(first, room=9)).claimed == []
        [third] = (await hand.succeed(second, room=9)).claimed
        await store.set(SessionSetting("chat", Rule(), throttled=False))
        assert len(await hand.claim(9)) == 1
        await hand.succeed(third)

    async def test_a_settlement_says_whether_its_session_is_throttled(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(4, "s", session="chat", max_concurrent=2))
        first, second = await hand.claim(9)

        reply = await hand.step(results=[hand.result(first, Succeeded("1"), throttled=True)], room=9)
        assert reply.claimed == []
        reply = await hand.step(results=[hand.result(second, Succeeded("1"), throttled=False)], room=9)

        assert ids(reply.claimed) == ["s-00002", "s-00003"]

    async def test_a_delayed_run_gives_its_rules_when_it_joins(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        policy = SessionPolicy(max_concurrent=3)
        await store.submit([new_run("a", session="chat", policy=policy, delay=5)])
        await store.submit([new_run("b", session="talk", policy=policy, delay=5)])
        await store.submit([new_run("c", session="past", policy=policy, due_at=clock.now() - 5)])
        await store.change_run("c1", "b", Pause())

        await clock.advance(6)
        await hand.step()
        await store.change_run("c2", "b", Resume())

        for name in ("chat", "talk", "past"):
            state = await session_of(store, name)
            assert state is not None
            assert (name, state.rule.max_concurrent) == (name, 3)

    async def test_sessions_are_listed_by_name(self, store: Store) -> None:
        await store.submit([new_run(session=name) for name in ("b/2", "a/1", "b/1", "c")])
        await store.set(SessionSetting("b/3", Rule(cap=2)))

        assert [state.name for state in await store.sessions(prefix="b/")] == ["b/1", "b/2", "b/3"]
        assert [state.name for state in await store.sessions(limit=2)] == ["a/1", "b/1"]
        assert [state.name for state in await store.sessions(after="b/1", limit=2)] == ["b/2", "b/3"]

    async def test_a_run_that_its_lane_drops_frees_its_place(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", max_pending=2, when_full=WhenFull.DROP_OLD)])
        await store.submit([new_run(name, session="chat", policy=SessionPolicy(cap=5)) for name in "ab"])

        await store.submit([new_run("c", session="chat", policy=SessionPolicy())])

        state = await session_of(store, "chat")
        assert state is not None
        assert (state.queued, state.rule.cap) == (2, 5)
        assert await states(store, "a", "b", "c") == [D, P, P]
