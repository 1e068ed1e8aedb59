"""How values are said, and what fits into a narrow terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from laneway.cli.shell import formats
from laneway.cli.shell.options import seconds
from laneway.cli.shell.output import STATES, one_line
from laneway.core.records.memos import Called, Question, Wait
from laneway.core.records.run import Failure, Request, Run
from laneway.core.records.states import RunState
from laneway.engine.common.ids import RunIds

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


def run(**given: Any) -> Run:
    fixed: dict[str, Any] = {"id": "a" * 32, "number": 1, "task": "t", "args": {}, "lane": "main"}
    return Run(**{**fixed, "accepted_at": NOW, "due_at": NOW, **given})


@pytest.mark.parametrize(
    ("length", "said", "spoken"),
    [
        (0, "0ms", "0 ms"),
        (0.0004, "0ms", "0 ms"),
        (0.9994, "999ms", "999 ms"),
        (0.9996, "1.0s", "1.0 s"),
        (9.94, "9.9s", "9.9 s"),
        (9.96, "10s", "10 s"),
        (59.6, "1m00s", "1 m 00 s"),
        (3599, "59m59s", "59 m 59 s"),
        (3600, "1h00m", "1 h 00 m"),
        (86_400 * 4 + 7200, "4d02h", "4 d 02 h"),
        (-5, "-5.0s", "-5.0 s"),
    ],
)
def test_a_duration_is_said_in_at_most_two_units(length: float, said: str, spoken: str) -> None:
    assert formats.span(length) == formats.span(timedelta(seconds=length)) == said
    assert formats.spoken(length) == spoken


@pytest.mark.parametrize(
    ("text", "length"),
    [("30", 30), ("1.5", 1.5), ("250ms", 0.25), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172_800)],
)
def test_a_duration_is_read_with_or_without_units(text: str, length: float) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"limit": 30, "per_user": None}, {"limit": 40, "per_user": 2}, "limit 30 -> 40, per_user none -> 2"),
        ({"cap": 3, "pass_on_retry": True}, {"cap": 3}, "pass_on_retry true -> none"),
        ({"limit": 40}, {"limit": 40}, "as it was: limit 40"),
        ({"cap": None}, {"cap": None}, "as it was: nothing is set"),
        (None, {"limit": 5, "per_user": None}, "new: limit 5"),
    ],
)
def test_a_change_says_what_was_and_what_is(was: dict[str, object] | None, now: dict[str, object], said: str) -> None:
    assert formats.change(was, now) == said


def test_sizes_have_one_unit() -> None:
    sizes = (0, 1023, 1024, 4300, 2**20 - 1, 5 * 2**20, 3 * 2**30, 7 * 2**40)
    assert [formats.size(size) for size in sizes] == [
        *("0 bytes", "1023 bytes", "1.0 KiB", "4.2 KiB", "1.0 MiB", "5.0 MiB", "3.0 GiB", "7.0 TiB")
    ]


def test_ages_have_one_unit() -> None:
    ages = [formats.age(NOW - timedelta(seconds=n), NOW) for n in (-3, 0, 59, 60, 7199, 86_400)]

    assert ages == ["0s", "0s", "59s", "1m", "1h", "1d"]


def test_a_run_that_is_due_later_waits_a_negative_time() -> None:
    later = run(due_at=NOW + timedelta(hours=1))
    running = run(state=RunState.RUNNING, started_at=NOW + timedelta(seconds=2))

    assert (formats.waited(later, NOW), formats.ran(later, NOW)) == ("-1h00m", "")
    assert (formats.waited(running, NOW), formats.ran(running, NOW + timedelta(seconds=5))) == ("2.0s", "3.0s")


def test_an_error_is_said_in_its_first_line() -> None:
    failed = run(state=RunState.FAILED, error=Failure("error", "ValueError", "\nno\nand more"))
    silent = run(state=RunState.FAILED, error=Failure("error", "KeyboardInterrupt", ""))

    assert (formats.failure(failed), formats.failure(silent)) == ("ValueError: no", "KeyboardInterrupt")


def test_a_list_notes_what_is_requested_before_what_failed() -> None:
    error = Failure("error", "ValueError", "no")
    running = run(state=RunState.RUNNING, request=Request.CANCEL, error=error)
    paused = run(state=RunState.PAUSED, error=error)

    assert (formats.standing(running), formats.note(running)) == ("running, cancel requested", "cancel requested")
    assert (formats.standing(paused), formats.note(paused)) == ("paused", "ValueError: no")


def test_a_list_notes_what_a_run_waits_for_before_what_failed() -> None:
    question = Question(name="1", question="red\nor blue?", timeout=5)
    wait = Wait(questions=(question,), calls=(Called(name="a", run_id="b"), Called(name="c", run_id="d")))
    error = Failure("error", "ValueError", "no")
    waiting = run(state=RunState.WAITING, wait=wait, error=error)
    paused = run(state=RunState.WAITING, wait=wait, request=Request.PAUSE)

    assert formats.note(waiting) == "asks: red or blue?; has called 2 runs"
    assert formats.note(paused) == "pause requested: when it goes on, asks: red or blue?; has called 2 runs"


def test_every_state_has_a_symbol_of_its_own_also_in_ascii() -> None:
    assert set(STATES) == {state.value for state in RunState}
    assert (
        len({fine for fine, _, _ in STATES.values()}) == len({plain for _, plain, _ in STATES.values()}) == len(STATES)
    )
    assert all(plain.isascii() for _, plain, _ in STATES.values())


def test_text_from_anywhere_becomes_one_harmless_line() -> None:
    assert one_line("a\n  b\x1b[31m\tc") == "a b [31m c"
    assert one_line("grüße 你好") == "grüße 你好"


def test_ids_are_shortened_to_what_tells_them_apart() -> None:
    assert formats.short_ids(["0" * 32]) == ["0" * 12]
    assert formats.short_ids(["0" * 32, "0" * 14 + "1" * 18]) == ["0" * 15, "0" * 14 + "1"]
    made = RunIds()
    ids = [made() for _ in range(200)]
    short = formats.short_ids(ids)
    assert len(set(short)) == 200
    assert {len(each) for each in short} <= set(range(12, 21))
