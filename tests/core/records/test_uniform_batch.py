"""Submissions in columns are the submissions that they stand for."""

from laneway.core.records.run import NewRun, UniformBatch

COLUMNS = UniformBatch("noop", "main", ["a", "b", "c"], ["1", "2", "3"])
MADE = [NewRun(id=id_, task="noop", args=args, lane="main") for id_, args in (("a", "1"), ("b", "2"), ("c", "3"))]


def test_what_is_asked_for_is_made_of_its_id_and_its_arguments() -> None:
    assert list(COLUMNS) == MADE
    assert [COLUMNS[0], COLUMNS[-1], len(COLUMNS)] == [MADE[0], MADE[2], 3]


def test_a_part_of_them_is_in_columns_too() -> None:
    part = COLUMNS[1:]

    assert isinstance(part, UniformBatch)
    assert list(part) == MADE[1:]
    assert not COLUMNS[3:]
