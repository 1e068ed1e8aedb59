"""The one place where an error becomes a line on stderr and an exit code.

The first line says what is wrong; a second one, if there is advice, what to do. Only `--debug` shows a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from laneway.errors import JobExists, MoveRefused

FINE = 0
FAILED = 1
WRONG_USE = 2
NOT_FOUND = 3
CONFLICT = 5
UNREACHABLE = 6
TIMED_OUT = 7
INTERRUPTED = 130

STAYS_SHUT = "it stays shut: start this again to go on waiting, longer with --wait, or --abort to open it again"
NOT_OPENED = "nothing was opened: find out who else writes there, then --abort, and move again"


class Problem(Exception):
    """An error for the user: a sentence, perhaps a hint what to do, and the exit code."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = WRONG_USE) -> None:
        super().__init__(message)
        self.hint, self.code = hint, code


def say(text: str) -> None:
    """Print a message for the user on stderr; stdout is for data."""
    click.echo(text, err=True)


def explain(error: BaseException, *, debug: bool) -> int:
    """Print on stderr what went wrong and what to do about it; return the exit code."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    message, advice, code = _meaning(error)
    if debug:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    say(f"laneway: {message}")
    if advice:
        say(f"  {advice}")
    return code


def code_of(error: Exception) -> int:
    """Return the exit code that an error leads to."""
    return _meaning(error)[2]


def _meaning(error: BaseException) -> tuple[str, str | None, int]:
    """Return what an error means: the sentence, the advice if there is any, and the exit code."""
    if isinstance(error, Problem):
        return str(error), error.hint, error.code
    if isinstance(error, click.ClickException):
        return _uncapitalised(error.format_message()), _usage(error), WRONG_USE
    for kind, code, advice in _meanings():
        if isinstance(error, kind):
            return str(error), advice(error) if callable(advice) else advice, code
    unexpected = f"this is unexpected{_place(error)}; --debug shows the whole traceback"
    return f"{type(error).__name__}: {error}", unexpected, FAILED


def _meanings() -> Sequence[tuple[type[Exception], int, str | Callable[[Any], str | None] | None]]:
    """Return the exit code of each error of laneway and the advice to give; the first kind that fits counts.

    The sentence is the error's own.
    """
    from laneway import errors

    return (
        (errors.UnknownRun, NOT_FOUND, None),
        (errors.UnknownTask, NOT_FOUND, None),
        (errors.UnknownLane, NOT_FOUND, None),
        (errors.UnknownJob, NOT_FOUND, None),
        (errors.JobExists, CONFLICT, _edit_job),
        (errors.JobChanged, CONFLICT, None),
        (errors.WrongState, CONFLICT, None),
        (errors.NotWaiting, CONFLICT, None),
        (errors.KeyConflict, CONFLICT, None),
        (errors.StoreMoved, CONFLICT, None),
        (errors.MoveRefused, CONFLICT, _overwrite),
        (errors.MoveUnfinished, TIMED_OUT, STAYS_SHUT),
        (errors.MoveDiffers, FAILED, NOT_OPENED),
        (errors.UsageError, WRONG_USE, None),
        (errors.StoreError, UNREACHABLE, None),
        (errors.LanewayError, FAILED, None),
    )


def _edit_job(error: JobExists) -> str:
    import shlex

    return f"change it: laneway jobs edit {shlex.quote(error.name)} ..."


def _overwrite(error: MoveRefused) -> str | None:
    return "--overwrite deletes what it has" if "is not empty" in str(error) else None


def _usage(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"try: {context.command_path} --help" if context is not None else None


def _uncapitalised(message: str) -> str:
    # Click writes a whole sentence; here it follows "laneway: ".
    text = message.strip().removesuffix(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _place(error: BaseException) -> str:
    frame = error.__traceback__
    if frame is None:
        return ""
    while frame.tb_next is not None:
        frame = frame.tb_next
    return f" (at {frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})"


def leave_now(code: int) -> NoReturn:
    """End the process at once, without waiting for threads."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
