"""The order of the tests themselves."""

import random
from pathlib import Path

import pytest

from tests.ordering import files_below, shares, spread


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


def test_each_process_begins_with_files_of_its_own_and_together_they_have_all_that_were_asked_for(
    tmp_path: Path,
) -> None:
    names = ["a/test_one.py", "a/b/test_two.py", "c/test_three.py", "c/helper.py", "d/test_four.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    asked = files_below(["a", str(tmp_path / "c"), "a/test_one.py::test_it[1]"], tmp_path)

    assert asked == [tmp_path / names[1], tmp_path / names[0], tmp_path / names[2]]
    assert sorted(file for share in shares(asked, 2) for file in share) == asked
