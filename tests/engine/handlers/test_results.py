"""What a handler returned, as an outcome."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from laneway.core.lifecycle.outcome import Failed, Succeeded
from laneway.core.records import codec
from laneway.engine.handlers.results import after_return
from laneway.errors import BadArguments
from laneway.scheduler import Scheduler


def count() -> int:
    return 0


TASK = Scheduler("memory://").task(count)


@given(st.integers(-(2**65), 2**65), st.integers(1, 30))
@example(2**63, 100)
@example(-(2**63), 100)
@example(2**63 - 1, 19)
@example(-(2**63) + 1, 19)
@example(2**64, 100)
def test_a_whole_number_is_written_as_any_other_result(value: int, limit: int) -> None:
    outcome = after_return(TASK, value, limit)

    try:
        text = codec.to_json([value], "it", limit + 2)
        assert outcome == Succeeded(text[1:-1])
    except BadArguments:
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == "bad_result"


def test_true_is_not_the_number_that_it_equals() -> None:
    assert after_return(TASK, True, 100) == Succeeded("true")
