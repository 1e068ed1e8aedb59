"""Windows: messages in quick succession become one run."""

from __future__ import annotations

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.records.policy import Mode, SessionPolicy
from laneway.core.records.run import Receipt, ReceiptOutcome, Request
from laneway.core.records.states import RunState
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.gates import Held
from laneway.ports.sessions import Extent
from laneway.ports.settings import Hold
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, new_run, new_runs
from tests.contract.suite.frame import Part, counts, ids, kinds, start_order, states
from tests.support.sessions import session_of

ACCEPTED, MERGED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.MERGED
QUICK = SessionPolicy(debounce=2)  # and so at most ten seconds


async def windows(store: Store, session: str = "chat") -> int:
    """Return how many windows of the session are open."""
    state = await session_of(store, session)
    return 0 if state is None else state.windows


async def due_in(store: Store, clock: FakeClock, run_id: str) -> float:
    """Return in how many seconds the run is due."""
    return ((await store.get(run_id)).due_at.timestamp() * SECOND - clock.now()) / SECOND


class TestDebounce(Part):
    """`SessionPolicy.debounce` and `max_wait`."""

    async def test_messages_inside_the_window_become_one_run(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()

        [first] = await store.submit([new_run("a", session="chat", policy=QUICK)])
        await clock.advance(1)
        [second] = await store.submit([new_run("b", session="chat", policy=QUICK)])

        assert (first, second) == (Receipt(ACCEPTED, "a"), Receipt(MERGED, "a"))
        assert await due_in(store, clock, "a") == pytest.approx(2)
        assert await kinds(store, "a") == ["merged"]
        assert await counts(store) == {"merged": 1}
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.windows, state.queued, state.active) == (1, 0, 0)
        await clock.advance(1.5)
        assert (await hand.step(room=9)).claimed == []
        await clock.advance(0.5)
        [claimed] = await hand.claim(9)
        assert (claimed.id, claimed.messages) == ("a", 1)
        assert await windows(store) == 0
        assert (await store.depths()).runs == {"running": 1}

    async def test_a_run_starts_never_later_than_max_wait_after_the_first(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        policy = SessionPolicy(debounce=2, max_wait=5)
        await store.submit([new_run("a", session="chat", policy=policy)])
        for index in range(4):
            await clock.advance(1.2)
            await store.submit([new_run(f"m{index}", session="chat", policy=policy)])
        assert await due_in(store, clock, "a") == pytest.approx(0.2)

        await clock.advance(0.2)

        assert ids(await hand.claim(9)) == ["a"]
        assert (await store.get("a")).messages == 4
        [next_one] = await store.submit([new_run("b", session="chat", policy=policy)])
        assert next_one == Receipt(ACCEPTED, "b")

    async def test_a_message_without_a_debounce_of_its_own_is_taken_and_moves_nothing(
        self, store: Store, clock: FakeClock
    ) -> None:
        await store.submit([new_run("a", session="chat", policy=QUICK)])
        await clock.advance(1)

        [receipt] = await store.submit([new_run("b", session="chat")])

        assert receipt == Receipt(MERGED, "a")
        assert await due_in(store, clock, "a") == pytest.approx(1)

    async def test_the_message_that_finds_it_due_makes_a_run_of_its_own(self, store: Store, clock: FakeClock) -> None:
        await store.submit([new_run("a", session="chat", policy=QUICK)])
        await clock.advance(2)

        [receipt] = await store.submit([new_run("b", session="chat", policy=QUICK)])

        assert receipt == Receipt(ACCEPTED, "b")
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.queued, state.windows) == (1, 1)

    @pytest.mark.parametrize("other", [Fields(user="bob"), Fields(user=None), Fields(task="mail")])
    async def test_another_task_or_user_has_a_window_of_its_own(self, store: Store, other: Fields) -> None:
        mine = Fields(user="ann", session="chat", policy=QUICK)
        await store.submit([new_run("a", **mine)])

        receipts = await store.submit(
            [new_run("b", **mine | other), new_run("c", **mine | other), new_run("d", **mine)]
        )

        assert receipts == [Receipt(ACCEPTED, "b"), Receipt(MERGED, "b"), Receipt(MERGED, "a")]
        assert await windows(store) == 2

    @pytest.mark.parametrize("mode", Mode)
    async def test_an_open_window_takes_the_message_and_nothing_else_happens(self, store: Store, mode: Mode) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        await hand.claim(1)
        await store.submit([new_run("w", session="chat", policy=QUICK)])

        [receipt] = await store.submit([new_run("m", session="chat", policy=SessionPolicy(mode=mode, cap=1))])

        assert receipt == Receipt(MERGED, "w")
        assert await states(store, "s-00000", "s-00001") == [RunState.RUNNING, RunState.PENDING]
        assert (await store.get("s-00000")).request is None

    async def test_what_is_for_later_or_made_by_the_engine_is_not_merged(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", policy=QUICK)])

        receipts = await store.submit(
            [
                new_run("later", session="chat", policy=QUICK, delay=5),
                new_run("inside", session="chat", policy=QUICK, inside=True),
            ]
        )

        assert [(receipt.outcome, receipt.run_id) for receipt in receipts] == [
            (ACCEPTED, "later"),
            (ACCEPTED, "inside"),
        ]
        assert await windows(store) == 1

    async def test_an_interrupt_cancels_on_arrival_and_its_run_waits_for_its_window(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        claimed = await hand.claim(1)

        policy = SessionPolicy(mode=Mode.INTERRUPT, debounce=2)
        await store.submit([new_run("w", session="chat", policy=policy), new_run("m", session="chat", policy=policy)])

        assert (await store.get("s-00000")).request is Request.CANCEL
        assert await states(store, "s-00001") == [RunState.DROPPED]
        await clock.advance(2)
        assert await hand.claim(9) == []
        assert ids((await hand.stop(*claimed, room=9)).claimed) == ["w"]

    async def test_a_windows_run_joins_the_tail_when_it_closes(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("w", session="chat", policy=QUICK, user="ann")])
        await store.submit([new_run("a", session="chat"), new_run("b", session="chat")])

        await clock.advance(2)

        assert await start_order(hand) == ["a", "b", "w"]

    async def test_a_windowed_message_that_brings_room_lets_others_start(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "s", session="chat"))
        await hand.claim(9)

        policy = SessionPolicy(debounce=2, max_concurrent=3)
        await store.submit([new_run("w", session="chat", policy=policy, user="ann")])

        assert ids(await hand.claim(9)) == ["s-00001"]

    async def test_a_window_is_closed_by_a_pause_of_its_run(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat", policy=QUICK)])

        await store.change_run("c1", "a", Pause())

        assert await session_of(store, "chat") is None
        [receipt] = await store.submit([new_run("b", session="chat", policy=QUICK)])
        assert receipt == Receipt(ACCEPTED, "b")
        await clock.advance(9)
        await store.change_run("c2", "a", Resume())
        assert await start_order(hand) == ["b", "a"]

    async def test_a_window_is_closed_by_a_cancel_of_its_run(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", policy=QUICK)])

        await store.change_run("c1", "a", Cancel())

        assert await session_of(store, "chat") is None
        assert await kinds(store, "a") == ["cancel_requested", "done"]
        assert (await store.submit([new_run("b", session="chat", policy=QUICK)]))[0] == Receipt(ACCEPTED, "b")

    async def test_a_window_is_closed_by_stop_all(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", policy=QUICK), new_run("m", session="chat", policy=QUICK)])

        stopped = await store.stop("c1", "chat", Extent.ALL)

        assert (stopped.cancelled, stopped.dropped) == ((), ("a",))
        assert await session_of(store, "chat") is None
        assert await kinds(store, "a") == ["merged", "dropped", "done"]
        assert (await store.submit([new_run("b", session="chat", policy=QUICK)]))[0] == Receipt(ACCEPTED, "b")

    async def test_stop_leaves_a_window_open(self, store: Store) -> None:
        await store.submit([new_run("a", session="chat", policy=QUICK)])

        assert (await store.stop("c1", "chat", Extent.OLDEST)).cancelled == ()

        assert await windows(store) == 1

    async def test_a_window_whose_session_is_paused_closes_and_its_run_waits(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat", policy=QUICK)])
        await store.set(Hold(Held.SESSION, "chat", held=True))
        await clock.advance(2)
        assert await hand.claim(9) == []
        state = await session_of(store, "chat")
        assert state is not None
        assert (state.windows, state.queued) == (0, 1)

        await store.set(Hold(Held.SESSION, "chat", held=False))

        assert ids(await hand.claim(9)) == ["a"]

    async def test_a_run_of_a_window_does_not_count_as_queued_and_is_not_dropped(self, store: Store) -> None:
        await store.submit([new_run("w", session="chat", policy=QUICK, user="ann")])

        receipts = await store.submit([new_run(name, session="chat", policy=SessionPolicy(cap=1)) for name in "ab"])

        assert [receipt.outcome for receipt in receipts] == [ACCEPTED, ACCEPTED]
        assert await states(store, "w", "a", "b") == [RunState.PENDING, RunState.DROPPED, RunState.PENDING]

    async def test_a_resting_worker_knows_when_the_window_closes(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", session="chat", policy=QUICK)])
        await clock.advance(1)
        await store.submit([new_run("b", session="chat", policy=QUICK)])

        reply = await hand.rest()

        assert reply.due_in == 2 * SECOND

    async def test_who_tries_a_run_again_has_what_was_merged_into_it(self, store: Store) -> None:
        hand = await Hand(store).register()
        collect = SessionPolicy(mode=Mode.COLLECT)
        await store.submit([new_run(name, session="chat", policy=collect) for name in "abc"])
        await start_order(hand)
        again = new_run("again", session="chat", retry_of="a", inside=True)

        await store.submit([again])
        await store.submit([again])

        run, merged = await store.get("again"), await store.messages("again")
        assert (run.retry_of, run.messages) == ("a", 2)
        assert [(message.id, message.kind.value, message.nth) for message in merged] == [
            ("b", "merged", 1),
            ("c", "merged", 2),
        ]
        assert await kinds(store, "again") == ["merged", "merged"]
        assert await store.submit([new_run("b", session="chat", policy=collect)]) == [Receipt(MERGED, "a")]
        [claimed] = await hand.claim(1)
        assert (claimed.id, claimed.messages) == ("again", 2)
        await hand.succeed(claimed)
        assert await kinds(store, "again") == ["merged", "merged", "started", "result", "done"]
