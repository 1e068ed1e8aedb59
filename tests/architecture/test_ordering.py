"""The order of the tests themselves."""

import random

import pytest

from tests.ordering import spread


def waits(name: str) -> bool:
    return name.startswith("waits")


@pytest.mark.parametrize(("workers", "begin"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_what_waits_begins_in_all_processes_but_one(workers: int, begin: int) -> None:
    items = [f"waits {number}" for number in range(6)] + [f"computes {number}" for number in range(54)]
    random.Random(1).shuffle(items)

    found = spread(items, workers, waits)

    share = 60 // workers
    stretches = [found[share * worker : share * (worker + 1)] for worker in range(workers)]
    assert [sum(map(waits, stretch[: 6 // begin])) for stretch in stretches] == [6 // begin] * begin + [0] * (
        workers - begin
    )
    assert sorted(found) == sorted(items)


def test_more_that_waits_than_a_share_holds_loses_nothing() -> None:
    items = [f"waits {number}" for number in range(50)] + [f"computes {number}" for number in range(10)]

    assert sorted(spread(items, 3, waits)) == sorted(items)
    assert spread([], 3, waits) == []
