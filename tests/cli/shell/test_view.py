"""A record is described once, and shown as a table, as plain lines and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from laneway.cli.runs.view import RUN
from laneway.cli.shell import view
from laneway.cli.shell.view import Column, View, fit


class Pet(NamedTuple):
    name: str
    kind: str = ""
    age: int | None = None


PET: View[Pet] = View(
    Column("name", lambda pet: pet.name),
    Column("kind", lambda pet: pet.kind),
    Column("years_old", lambda pet: pet.age, optional=True),
    json=lambda pet: {"v": 1, "name": pet.name},
    title=lambda pet: f"{pet.name} the pet",
    facts=lambda pet: [("kind", pet.kind), *view.several("likes", ("bones", "you"))],
    blocks=lambda pet: [("photo", f"  /\\\n\x1b{pet.name}", "")],
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(view, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    return monkeypatch


def lines(capsys: pytest.CaptureFixture[str]) -> Sequence[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_pipe_gets_aligned_lines_with_a_dash_for_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show_all([Pet("Rex", "dog", 7), Pet("Mimi")])

    assert lines(capsys) == ["NAME  KIND  YEARS_OLD", "Rex   dog   7", "Mimi  -     -"]


def test_an_optional_column_that_is_empty_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show_all([Pet("Mimi")])

    assert lines(capsys) == ["NAME  KIND", "Mimi  -"]


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_every_column_that_is_empty_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show_all([Pet("Rex", age=7)])

    assert lines(capsys) == ["      years", "name  old", "Rex   7"]


def test_json_is_one_array_and_ndjson_one_object_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show_all([Pet("Rex"), Pet("Mimi")], as_json=True)
    PET.show_all([Pet("Rex"), Pet("Mimi")], ndjson=True)

    array, *objects = map(json.loads, lines(capsys))
    assert array == objects == [{"v": 1, "name": "Rex"}, {"v": 1, "name": "Mimi"}]


def test_of_too_many_the_first_are_shown_with_the_way_to_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show_all([Pet("Rex"), Pet("Mimi")], limit=1, resume=lambda pet: f"--after {pet.name}")

    out, err = capsys.readouterr()
    assert (out, err) == ("NAME  KIND\nRex   -\n", "there are more; go on with --after Rex\n")


def test_that_there_is_nothing_is_said_on_stderr_but_not_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show_all([], none="no pets")
    PET.show_all([], none="no pets", as_json=True)

    assert capsys.readouterr() == ("[]\n", "no pets\n")


def test_a_page_has_facts_with_values_and_blocks_that_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    PET.show(Pet("Rex"))

    assert lines(capsys) == [
        *("Rex the pet", "likes       bones", "            you"),
        *("", "photo", "    /\\", "  Rex"),
    ]


def test_a_change_is_a_line_or_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        view.show_change("Rex  ", {"pet": "Rex"}, {"age": 7}, {"age": 8}, as_json=as_json, note="!")

    line, record = lines(capsys)
    assert line == "Rex  age 7 -> 8!"
    assert json.loads(record) == {"v": 1, "pet": "Rex", "was": {"age": 7}, "is": {"age": 8}}


@pytest.mark.parametrize("room", range(10, 200, 7))
def test_columns_of_runs_give_way_in_their_order_and_task_and_state_stay(room: int) -> None:
    widths, gap = fit({column: 30 if column.head == "note" else 11 for column in RUN.columns}, room, 2)

    shown = [column.head for column in widths]
    assert {"id", "task", "state"} <= set(shown)
    assert gap == 2
    assert sum(widths.values()) + gap * (len(widths) - 1) <= max(room, 37)
    order = ["lane", "ran", "waited", "session", "attempt", "user", "age"]
    left = [head for head in order if head in shown]
    assert left == order[len(order) - len(left) :]
    if left:
        assert widths[RUN.columns[-1]] >= 24


def test_the_gap_gives_way_before_a_column_is_cut() -> None:
    first, middle, last = (Column[Pet](head, lambda pet: pet.name) for head in ("a", "b", "c"))

    assert fit({first: 10, middle: 10, last: 10}, 34) == ({first: 10, middle: 10, last: 10}, 2)
    assert fit({first: 10, middle: 10, last: 10}, 32) == ({first: 10, middle: 10, last: 10}, 1)
    assert fit({first: 10, middle: 10, last: 10}, 31) == ({first: 10, middle: 10, last: 9}, 1)
    assert fit({first: 40, middle: 10, last: 10}, 50) == ({first: 30, middle: 10, last: 8}, 1)
