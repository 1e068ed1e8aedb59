"""Jitter: a part of a wait that looks random and is the same everywhere."""

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.common.instants import LONGEST
from laneway.core.common.jitter import part, share


@given(st.text(), st.integers(1, LONGEST))
def test_a_part_is_at_least_nothing_and_less_than_the_whole(text: str, whole: int) -> None:
    assert 0 <= share(text) < 1
    assert 0 <= part(text, whole) < whole


def test_shares_are_spread_over_the_whole() -> None:
    parts = [part(f"job-{number}", 10) for number in range(1000)]

    assert all(70 < parts.count(tenth) < 130 for tenth in range(10))
