"""What follows an attempt."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.lifecycle.outcome import (
    LAST_CHANCE,
    NOT_RETRIED,
    Cancelled,
    Failed,
    Lapsed,
    Outcome,
    Paused,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    overruled,
    settle,
)
from laneway.core.records.events import DONE, Draft
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import Claimed, Failure, Request
from laneway.core.records.states import TERMINAL, Move, RunState

EMITTED: tuple[Draft, ...] = (("log", '{"text":"a"}'),)
NO = Failure("error", "ValueError", "no", "Traceback: secret path")


def running(attempt: int = 1, crashes: int = 0) -> Claimed:
    return Claimed(7, "run-7", "work", "{}", 3, attempt, crashes, "main", "ann", None, 0, "w1")


def shown(settlement: Settlement) -> list[tuple[str, Any]]:
    return [(kind, json.loads(data)) for kind, data in settlement.drafts]


def test_a_success_ends_the_run_with_its_result() -> None:
    settlement = settle(running(attempt=2, crashes=1), Succeeded("[42]"), TaskPolicy(), EMITTED)

    assert settlement == Settlement(Move.SUCCEED, 2, 0, "[42]", drafts=settlement.drafts, own=settlement.own)
    assert settlement.state is RunState.SUCCEEDED
    # The value stands in the record, once; the event is filled when it is read.
    assert shown(settlement) == [("log", {"text": "a"}), ("result", None), ("done", {"state": "succeeded"})]


def test_a_failure_charges_an_attempt_and_comes_back_after_its_delay() -> None:
    settlement = settle(running(crashes=2), Failed(NO), TaskPolicy(), EMITTED)

    delay = Retry().delay_before(2, "run-7")
    assert delay is not None
    assert settlement == Settlement(
        Move.RETRY, 2, 0, delay=delay, failure=NO, drafts=settlement.drafts, own=settlement.own
    )
    assert settlement.state is RunState.PENDING
    error = {"kind": "error", "type": "ValueError", "message": "no"}
    assert shown(settlement) == [
        ("log", {"text": "a"}),
        ("retrying", {"attempt": 2, "delay": delay / 1e6, "error": error}),
    ]


def test_the_last_failure_ends_the_run() -> None:
    settlement = settle(running(attempt=3), Failed(NO), TaskPolicy(), EMITTED)

    assert settlement == Settlement(
        Move.FAIL, 3, 0, failure=NO, reason="error", drafts=settlement.drafts, own=settlement.own
    )
    assert settlement.state is RunState.FAILED
    error = {"kind": "error", "type": "ValueError", "message": "no"}
    assert shown(settlement) == [("log", {"text": "a"}), ("error", error), ("done", {"state": "failed"})]


@pytest.mark.parametrize("kind", sorted(NOT_RETRIED))
def test_what_cannot_get_better_is_not_tried_again(kind: str) -> None:
    settlement = settle(running(), Failed(Failure(kind, "TypeError", "no")), TaskPolicy())

    assert (settlement.move, settlement.attempt, settlement.reason) == (Move.FAIL, 1, kind)


@pytest.mark.parametrize(("on_timeout", "move"), [(True, Move.RETRY), (False, Move.FAIL)])
def test_a_timeout_is_tried_again_if_the_policy_says_so(on_timeout: bool, move: Move) -> None:
    policy = TaskPolicy(retry=Retry(on_timeout=on_timeout))

    settlement = settle(running(), Failed(Failure("timed_out", "TimeoutError", "5 s")), policy)

    assert settlement.move is move
    assert settlement.reason == (None if on_timeout else "timed_out")


def test_a_release_charges_nothing() -> None:
    settlement = settle(running(attempt=2, crashes=1), Released(), TaskPolicy(), EMITTED)

    assert settlement == Settlement(Move.RELEASE, 2, 1, drafts=settlement.drafts, own=settlement.own)
    assert settlement.state is RunState.PENDING
    assert shown(settlement) == [("log", {"text": "a"}), ("released", {})]


@pytest.mark.parametrize("crashes", [0, 1])
def test_a_lapse_charges_a_crash_and_no_attempt(crashes: int) -> None:
    settlement = settle(running(attempt=2, crashes=crashes), Lapsed(), TaskPolicy())

    assert (settlement.move, settlement.attempt, settlement.crashes) == (Move.LAPSE, 2, crashes + 1)
    assert (settlement.delay, settlement.reason) == (0, LAST_CHANCE if crashes else None)
    assert settlement.failure is not None
    assert (settlement.failure.kind, settlement.failure.type) == ("crashed", "WorkerLost")
    assert shown(settlement) == [("lapsed", {"worker": "w1", "crashes": crashes + 1})]


@pytest.mark.parametrize("outcome", [Released(), Snoozed(1), Paused(), Lapsed(charged=False)])
@pytest.mark.parametrize(("crashes", "most", "last"), [(0, 1, False), (1, 2, True), (1, 3, False), (2, 3, True)])
def test_a_run_that_comes_back_one_crash_short_of_quarantine_says_so(
    outcome: Outcome, crashes: int, most: int, last: bool
) -> None:
    settlement = settle(running(crashes=crashes), outcome, TaskPolicy(max_crashes=most))

    assert settlement.reason == (LAST_CHANCE if last else None)
    assert overruled(settlement, Request.PAUSE, 1).reason == settlement.reason
    assert overruled(settlement, Request.CANCEL, 1).reason is None


@pytest.mark.parametrize(("crashes", "most"), [(2, 3), (0, 1), (5, 3)])
def test_too_many_crashes_in_a_row_quarantine_the_run(crashes: int, most: int) -> None:
    settlement = settle(running(crashes=crashes), Lapsed(), TaskPolicy(max_crashes=most))

    assert (settlement.move, settlement.reason, settlement.crashes) == (Move.FAIL, "quarantined", crashes + 1)
    assert [kind for kind, _ in settlement.drafts] == ["lapsed", "error", "done"]


def test_no_event_shows_a_traceback() -> None:
    for attempt in (1, 3):
        settlement = settle(running(attempt), Failed(NO), TaskPolicy())
        assert settlement.failure == NO
        assert not any("secret" in data for _, data in settlement.drafts)


def test_an_attempt_out_of_time_whose_worker_died_is_charged_as_timed_out() -> None:
    run = running(crashes=1)
    run.timed_out = True

    settlement = settle(run, Lapsed(), TaskPolicy(timeout=5_000_000))

    assert (settlement.move, settlement.attempt, settlement.crashes) == (Move.RETRY, 2, 0)
    assert settlement.failure is not None
    assert (settlement.failure.kind, settlement.failure.message) == ("timed_out", "the handler took longer than 5 s")
    assert shown(settlement)[0] == ("lapsed", {"worker": "w1", "crashes": 1})


def test_a_snooze_charges_nothing_and_comes_back_after_its_delay() -> None:
    settlement = settle(running(attempt=2, crashes=1), Snoozed(1_500_000), TaskPolicy(), EMITTED)

    assert (settlement.state, settlement.attempt, settlement.crashes) == (RunState.PENDING, 2, 1)
    assert settlement.delay == 1_500_000
    assert shown(settlement) == [("log", {"text": "a"}), ("snoozed", {"delay": 1.5})]


OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Succeeded("null")),
    st.sampled_from(["error", "timed_out", "bad_result"]).map(lambda kind: Failed(Failure(kind, "E", "no"))),
    st.just(Released()),
    st.just(Lapsed()),
    st.just(Snoozed(1)),
    st.just(Paused()),
    st.just(Cancelled()),
)


@given(st.integers(1, 5), OUTCOMES, st.sampled_from([Request.CANCEL, Request.PAUSE, None]))
def test_what_was_requested_overrules_whatever_the_attempt_came_to(
    attempt: int, outcome: Outcome, request: Request | None
) -> None:
    settlement = settle(running(attempt), outcome, TaskPolicy(), () if isinstance(outcome, Lapsed) else EMITTED)

    written = overruled(settlement, request, attempt)

    if request is Request.CANCEL:
        assert (written.state, written.attempt, written.result) == (RunState.CANCELLED, attempt, None)
        assert ("stopped", {}) in shown(written) or isinstance(outcome, Lapsed)
    elif settlement.state in TERMINAL:
        assert written == settlement
    else:
        assert written.state is (RunState.PAUSED if request else RunState.PENDING)
        assert (written.attempt, written.delay) == (settlement.attempt, settlement.delay)
    assert written.drafts[: written.own] == settlement.drafts[: settlement.own]
    assert [kind for kind, _ in written.drafts].count(DONE) == (written.state in TERMINAL)


@given(st.integers(1, 5), st.integers(0, 5), OUTCOMES, st.integers(1, 4), st.integers(1, 4))
def test_every_outcome_gives_one_end_or_none_and_says_so_in_its_events(
    attempt: int, crashes: int, outcome: Outcome, attempts: int, most: int
) -> None:
    policy = TaskPolicy(retry=Retry(attempts=attempts), max_crashes=most)

    settlement = settle(running(attempt, crashes), outcome, policy, EMITTED)

    ends = [data for kind, data in settlement.drafts if kind == DONE]
    assert bool(ends) == (settlement.state in TERMINAL)
    assert not ends or (settlement.drafts[-1][0] == DONE and json.loads(ends[0]) == {"state": settlement.state.value})
    assert settlement.attempt - attempt in (0, 1)
    assert (settlement.result is not None) == (settlement.move is Move.SUCCEED)
    assert msgspec.json.decode(msgspec.json.encode(settlement), type=Settlement) == settlement
