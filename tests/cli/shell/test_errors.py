"""What an error means to the person at the terminal: one sentence, perhaps an advice, and an exit code."""

from __future__ import annotations

import inspect

import click
import pytest

from laneway import errors
from laneway.cli.shell.errors import Problem, code_of, explain

CODES = [
    (errors.BadArguments("no"), 2),
    (errors.BadSetting("no"), 2),
    (errors.BadURL("no"), 2),
    (errors.SameStore("a", "a"), 2),
    (errors.UnknownRun("a"), 3),
    (errors.UnknownTask("a"), 3),
    (errors.UnknownLane("a"), 3),
    (errors.UnknownJob("a"), 3),
    (errors.JobExists("a", "1"), 5),
    (errors.JobChanged("a"), 5),
    (errors.KeyConflict("a", "1"), 5),
    (errors.WrongState("failed", "cancel"), 5),
    (errors.NotWaiting("a", "running"), 5),
    (errors.MoveRefused("no"), 5),
    (errors.StoreMoved("there"), 5),
    (errors.StoreUnavailable("no"), 6),
    (errors.StoreTooNew("no"), 6),
    (errors.NotAStore("no"), 6),
    (errors.MoveUnfinished("a", 1), 7),
    (errors.MoveDiffers("a", "b", []), 1),
    (errors.RunFailed("a"), 1),
    (errors.LeaseLost("a"), 1),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=[type(error).__name__ for error, _ in CODES])
def test_each_error_of_laneway_has_its_exit_code(
    error: errors.LanewayError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(error) == explain(error, debug=False) == code

    said = capsys.readouterr().err
    assert said.startswith(f"laneway: {error}\n")
    assert "unexpected" not in said


def test_every_error_that_a_caller_or_an_operator_must_act_on_is_among_them() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.LanewayError)]
    acted_on = {kind for kind in kinds if issubclass(kind, (errors.UsageError, errors.StoreError))}

    covered = {type(error) for error, _ in CODES}
    assert acted_on - covered == {errors.UsageError, errors.StoreError, errors.WrongThread}


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errors.JobExists("a b", "1"), "change it: laneway jobs edit 'a b' ..."),
        (errors.MoveRefused("TO is not empty"), "--overwrite deletes what it has"),
        (errors.MoveUnfinished("a", 1), "it stays shut: "),
        (errors.MoveDiffers("a", "b", []), "nothing was opened: "),
        (Problem("no", hint="do it"), "do it"),
        (ZeroDivisionError("no"), "this is unexpected; --debug shows the whole traceback"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_advice_is_a_second_line(error: Exception, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    explain(error, debug=False)

    _, second = capsys.readouterr().err.splitlines()
    assert second.startswith(f"  {advice}")


def test_wrong_use_goes_on_after_a_colon_as_ours_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(click.UsageError("No such option: --wat."), debug=False) == 2

    assert capsys.readouterr().err == "laneway: no such option: --wat\n"
