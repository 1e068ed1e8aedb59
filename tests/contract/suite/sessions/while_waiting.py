"""While waiting: what a message does to a session in which a run waits for an answer.

The rule belongs to the session. It applies to a message of the same user that would queue, collect or steer, and only
while a run waits for a person, not for a called run:

- `cancel` (the default): the person has changed the subject. The run ends as *superseded* and the message goes to the
  head of the session, before all that were never started.
- `queue`: the message goes by its mode, as if nobody had asked.
- `answer`: the message *is* the answer to the first question of the oldest such run. It becomes no run; its receipt
  says `steered`, `answered`, and a repeat gets the same one.

An open debounce window takes a message before this rule, and a bound that refuses it leaves the question standing.
Messages of other users, for later, or made by the engine, wait their turn; `interrupt` and `reject` do what they say.
"""

from __future__ import annotations

from typing import Unpack

import pytest

from laneway.core.records.policy import Lane, Mode, Rule, SessionPolicy, WhenFull, WhileWaiting
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome
from laneway.core.records.states import RunState
from laneway.ports.control import Answer
from laneway.ports.gates import Held
from laneway.ports.settings import Hold, SessionSetting, TaskDisabled
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, Hand, new_run
from tests.contract.suite.frame import Part, ids, kinds, reason, start_order, states
from tests.contract.suite.sessions.passing import PASSING
from tests.contract.suite.sessions.sessions import standing
from tests.contract.suite.waits.calls import calling
from tests.contract.suite.waits.questions import asking, started

W, P, C = RunState.WAITING, RunState.PENDING, RunState.CANCELLED
ACCEPTED, MERGED, STEERED = ReceiptOutcome.ACCEPTED, ReceiptOutcome.MERGED, ReceiptOutcome.STEERED
HEEDED = [Mode.QUEUE, Mode.COLLECT, Mode.STEER]
ANSWERED = Receipt(STEERED, "a", "answered")


def message(
    name: str = "m",
    mode: Mode = Mode.QUEUE,
    rule: WhileWaiting | None = None,
    *,
    debounce: float = 0,
    **fields: Unpack[Fields],
) -> NewRun:
    """Return a message of `ann` to the session `chat`."""
    policy = SessionPolicy(mode=mode, while_waiting=rule, debounce=debounce, cap=1000)
    return new_run(name, **Fields(session="chat", user="ann", policy=policy) | fields)


async def ask_in_chat(store: Store, rule: WhileWaiting, *names: str, most: int = 1) -> Hand:
    """Return the worker of a run `a` of `ann` that waits for an answer in a session of this rule."""
    policy = SessionPolicy(while_waiting=rule, max_concurrent=most, cap=1000)
    return await asking(store, *names, session="chat", policy=policy)


class TestWhileWaitingCancel(Part):
    """`while_waiting="cancel"`."""

    @pytest.mark.parametrize("mode", HEEDED)
    async def test_the_run_is_superseded_and_the_message_goes_to_the_head(self, store: Store, mode: Mode) -> None:
        hand = await asking(store, session="chat")
        await store.submit([message("b", user="bob"), message("later", user="bob")])

        receipts = await store.submit([message("m", mode)])

        assert receipts == [Receipt(ACCEPTED, "m")]
        run = await store.get("a")
        assert (run.state, run.reason, run.wait) == (C, "superseded", None)
        assert await kinds(store, "a") == ["started", "question", "superseded", "done"]
        assert (await store.events("a"))[-2].data == {"by": "m"}
        assert await standing(store) == (1, 0, 3)
        assert await start_order(hand) == ["m", "b", "later"]

    async def test_it_is_the_default_and_a_message_may_bring_another_rule(self, store: Store) -> None:
        hand = await asking(store, session="chat")

        assert await store.submit([message(rule=WhileWaiting.ANSWER)]) == [ANSWERED]

        assert ids(await hand.claim(5)) == ["a"]

    async def test_an_operator_s_rule_wins(self, store: Store) -> None:
        await ask_in_chat(store, WhileWaiting.ANSWER)
        await store.set(SessionSetting("chat", Rule(while_waiting=WhileWaiting.QUEUE)))

        [receipt] = await store.submit([message(rule=WhileWaiting.CANCEL)])

        assert (receipt.outcome, await states(store, "a")) == (ACCEPTED, [W])

    @pytest.mark.parametrize("rule", WhileWaiting)
    @pytest.mark.parametrize("user", ["bob", None])
    async def test_a_message_of_somebody_else_waits_its_turn(
        self, store: Store, rule: WhileWaiting, user: str | None
    ) -> None:
        hand = await ask_in_chat(store, rule)

        [receipt] = await store.submit([message(user=user)])

        assert receipt == Receipt(ACCEPTED, "m", position=1)
        assert await states(store, "a", "m") == [W, P]
        assert await hand.claim(5) == []

    async def test_runs_without_a_user_are_of_one(self, store: Store) -> None:
        await asking(store, session="chat", user=None)

        await store.submit([message(user=None)])

        assert await reason(store, "a") == "superseded"

    @pytest.mark.parametrize("rule", WhileWaiting)
    async def test_reject_and_interrupt_do_what_they_say(self, store: Store, rule: WhileWaiting) -> None:
        hand = await ask_in_chat(store, rule)

        [refused] = await store.submit([message("r", Mode.REJECT)])
        assert (refused.reason, await states(store, "a")) == ("session_busy", [W])
        [accepted] = await store.submit([message("i", Mode.INTERRUPT)])

        assert accepted.outcome is ACCEPTED
        assert (await states(store, "a"), await reason(store, "a")) == ([C], None)
        assert ids(await hand.claim(5)) == ["i"]

    @pytest.mark.parametrize("rule", WhileWaiting)
    async def test_a_message_for_later_and_one_of_the_engine_wait_their_turn(
        self, store: Store, rule: WhileWaiting
    ) -> None:
        await ask_in_chat(store, rule)

        receipts = await store.submit([message("later", delay=5), message("inside", inside=True)])

        assert [receipt.outcome for receipt in receipts] == [ACCEPTED] * 2
        assert await states(store, "a") == [W]

    @pytest.mark.parametrize("rule", WhileWaiting)
    async def test_a_run_that_waits_for_a_called_run_is_not_asking(self, store: Store, rule: WhileWaiting) -> None:
        await calling(store, session="chat", policy=SessionPolicy(while_waiting=rule))

        [receipt] = await store.submit([message()])

        assert receipt == Receipt(ACCEPTED, "m", position=1)
        assert await states(store, "a") == [W]

    async def test_a_run_that_was_answered_is_asking_no_more(self, store: Store) -> None:
        hand = await asking(store, session="chat")
        await store.change_run("c", "a", Answer("1"))

        await store.submit([message()])

        assert await start_order(hand) == ["a", "m"]

    async def test_all_that_ask_of_the_same_user_are_superseded(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.CANCEL, most=3)
        await store.submit([message("x", inside=True), message("y", user="bob")])
        for run in await hand.claim(5):
            await hand.wait(run, "ok")
        assert await states(store, "a", "x", "y") == [W, W, W]

        await store.submit([message()])

        assert await states(store, "a", "x", "y", "m") == [C, C, W, P]

    async def test_one_message_after_the_other_waits_behind_it(self, store: Store) -> None:
        hand = await asking(store, session="chat")
        await store.submit([message("b", user="bob")])

        await store.submit([message("m1"), message("m2")])

        assert await start_order(hand) == ["m1", "b", "m2"]

    async def test_the_head_is_behind_those_that_come_back(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        fields = Fields(user="ann") | PASSING
        await store.submit([new_run("first", **fields | Fields(user="bob")), new_run("a", **fields)])
        [first] = await hand.claim(1)
        [second] = (await hand.fail(first, room=1)).claimed
        await store.submit([new_run("third", **fields | Fields(user="bob"))])
        [third] = (await hand.wait(second, "ok", room=1)).claimed
        await clock.advance(30)
        await hand.step()

        await store.submit([message()])

        assert await states(store, "a") == [C]
        [back] = (await hand.succeed(third, room=1)).claimed
        assert (back.id, ids((await hand.succeed(back, room=1)).claimed)) == ("first", ["m"])

    async def test_a_paused_session_keeps_the_message_at_its_head(self, store: Store) -> None:
        hand = await asking(store, session="chat")
        await store.submit([message("b", user="bob")])
        await store.set(Hold(Held.SESSION, "chat", held=True))

        await store.submit([message()])

        assert await states(store, "a") == [C]
        await store.set(Hold(Held.SESSION, "chat", held=False))
        assert await start_order(hand) == ["m", "b"]

    async def test_a_message_that_is_refused_leaves_the_question_standing(self, store: Store) -> None:
        await asking(store, session="chat")
        await store.declare_lanes([Lane("main", max_pending=1, when_full=WhenFull.REFUSE)])
        await store.submit([new_run("b")])
        await store.set(TaskDisabled("mail", disabled=True))

        receipts = await store.submit([message("m1"), message("m2", task="mail")])

        assert [receipt.reason for receipt in receipts] == ["lane_full", "task_disabled"]
        assert await states(store, "a") == [W]

    async def test_what_its_inbox_held_unread_becomes_a_run_behind_the_message(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        await store.submit([message("s", Mode.STEER)])
        await hand.wait(claimed, "ok")

        await store.submit([message()])

        assert await start_order(hand) == ["m", "s"]

    async def test_a_repeated_message_is_known(self, store: Store) -> None:
        await asking(store, session="chat")
        await store.submit([message()])

        assert await store.submit([message()]) == [Receipt(ACCEPTED, "m")]

    async def test_a_window_that_is_open_takes_it_before_the_rule(self, store: Store) -> None:
        hand, claimed = await started(store, session="chat")
        await store.submit([message("w", Mode.COLLECT, debounce=5)])
        await hand.wait(claimed, "ok")

        [receipt] = await store.submit([message()])

        assert (receipt.outcome, receipt.run_id) == (MERGED, "w")
        assert await states(store, "a") == [W]

    async def test_one_with_a_debounce_supersedes_at_once_and_opens_a_window(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await asking(store, session="chat")

        [first] = await store.submit([message("m1", debounce=5)])
        [second] = await store.submit([message("m2", debounce=5)])

        assert (first, second) == (Receipt(ACCEPTED, "m1"), Receipt(MERGED, "m1"))
        assert (await states(store, "a"), await hand.claim(5)) == ([C], [])
        await clock.advance(5)
        assert ids(await hand.claim(5)) == ["m1"]


class TestWhileWaitingQueue(Part):
    """`while_waiting="queue"`."""

    async def test_a_message_goes_by_its_mode(self, store: Store) -> None:
        hand = await ask_in_chat(store, WhileWaiting.QUEUE)

        receipts = await store.submit([message("q"), message("c", Mode.COLLECT), message("s", Mode.STEER)])

        assert receipts == [Receipt(ACCEPTED, "q", position=1), Receipt(MERGED, "q"), Receipt(STEERED, "a")]
        assert await states(store, "a") == [W]
        await store.change_run("x", "a", Answer("1"))
        reply = await hand.step(room=5)
        assert [(run.id, run.messages) for run in reply.claimed] == [("a", 1)]
        assert [asked.messages for asked in reply.requests] == [1]
