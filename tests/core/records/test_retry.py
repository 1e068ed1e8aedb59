"""When a failed attempt is tried again."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.common.instants import SECOND
from laneway.core.records.retry import Retry
from laneway.errors import BadSetting

SECONDS = st.floats(0, 1e6, allow_nan=False)
POLICIES = st.builds(
    Retry,
    attempts=st.integers(1, 200),
    base=SECONDS,
    factor=st.floats(1, 1000) | st.integers(1, 1000),
    cap=SECONDS,
    jitter=st.floats(0, 1),
)


@given(POLICIES)
def test_without_jitter_delays_never_shrink_and_never_pass_the_cap(retry: Retry) -> None:
    delays = [retry.delay_before(attempt) for attempt in range(2, retry.attempts + 1)]

    known = [delay for delay in delays if delay is not None]
    assert known == delays
    assert known == sorted(known)
    assert all(0 <= delay <= round(retry.cap * SECOND) for delay in known)


@given(POLICIES, st.text(min_size=1, max_size=40))
def test_jitter_moves_a_delay_by_its_share_at_most(retry: Retry, run_id: str) -> None:
    for attempt in range(2, min(retry.attempts, 20) + 1):
        plain, moved = retry.delay_before(attempt), retry.delay_before(attempt, run_id)
        assert plain is not None
        assert moved is not None
        assert plain * (1 - retry.jitter) - 2 <= moved <= plain * (1 + retry.jitter) + 2


@given(POLICIES, st.text(max_size=40), st.integers(2, 300))
def test_everybody_who_asks_gets_the_same_answer(retry: Retry, run_id: str, attempt: int) -> None:
    assert retry.delay_before(attempt, run_id) == retry.delay_before(attempt, run_id)


@given(POLICIES, st.text(max_size=10))
def test_after_the_last_attempt_there_is_no_other(retry: Retry, run_id: str) -> None:
    assert retry.delay_before(retry.attempts + 1, run_id) is None
    assert retry.attempts == 1 or retry.delay_before(retry.attempts, run_id) is not None


def test_the_default_waits_two_then_four_seconds_and_gives_up() -> None:
    assert [Retry().delay_before(attempt) for attempt in (2, 3, 4)] == [2 * SECOND, 4 * SECOND, None]


def test_jitter_differs_from_run_to_run_and_from_attempt_to_attempt() -> None:
    retry = Retry(attempts=9, factor=1)

    assert len({retry.delay_before(2, f"run-{index}") for index in range(50)}) > 40
    assert len({retry.delay_before(attempt, "run") for attempt in range(2, 10)}) == 8


def test_jitter_goes_either_way() -> None:
    delays = [Retry().delay_before(2, f"run-{index}") or 0 for index in range(200)]

    assert min(delays) < 1.6 * SECOND
    assert max(delays) > 2.4 * SECOND


def test_fixed_delays_are_one_retry_each_without_jitter() -> None:
    retry = Retry.delays(60, timedelta(minutes=4), 0.5)

    assert retry.attempts == 4
    assert [retry.delay_before(attempt, "run") for attempt in (2, 3, 4, 5)] == [
        60 * SECOND,
        240 * SECOND,
        SECOND // 2,
        None,
    ]


def test_no_delays_mean_no_retry() -> None:
    assert Retry.delays().delay_before(2) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attempts": 0}, r"Retry\(attempts=0\): it must be a whole number, 1 or more"),
        ({"attempts": 2.5}, r"Retry\(attempts=2.5\)"),
        ({"attempts": True}, r"Retry\(attempts=True\)"),
        ({"base": -1}, "Retry.base is -1; it must be 0 or more"),
        ({"base": float("nan")}, "Retry.base is nan; it must be a finite number"),
        ({"cap": "long"}, "Retry.cap is 'long'; it must be seconds or a timedelta"),
        ({"factor": 0.5}, r"Retry\(factor=0.5\): it must be a number, 1 to 1000"),
        ({"factor": float("nan")}, r"Retry\(factor=nan\)"),
        ({"factor": float("inf")}, r"Retry\(factor=inf\)"),
        ({"factor": "2"}, r"Retry\(factor='2'\)"),
        ({"jitter": 1.1}, r"Retry\(jitter=1.1\): it is a share, 0 to 1"),
        ({"jitter": float("nan")}, r"Retry\(jitter=nan\)"),
        ({"steps": (1.0, 2.0), "attempts": 7}, "Retry has 2 steps for 7 attempts"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        Retry(**wrong)
