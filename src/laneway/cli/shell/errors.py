"""The one place where errors become a line on stderr and an exit code.

The line says what is wrong, a second one, if any, what to do. A traceback is for `--debug`: a user's mistake is never
answered with one.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import click

FINE = 0
FAILED = 1
WRONG_USE = 2
NOT_FOUND = 3
CONFLICT = 5
UNREACHABLE = 6
TIMED_OUT = 7
INTERRUPTED = 130


class Problem(Exception):
    """What is wrong, in words for the person at the terminal, with a hint and the exit code it leads to."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = WRONG_USE) -> None:
        super().__init__(message)
        self.hint, self.code = hint, code


def say(text: str) -> None:
    """Talk to the person: a line on stderr, apart from the data on stdout."""
    click.echo(text, err=True)


def explain(error: BaseException, *, debug: bool) -> int:
    """Say on stderr what went wrong and return the exit code."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    message, hint, code = _read(error)
    if debug:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    say(f"laneway: {message}")
    if hint:
        say(f"  {hint}")
    return code


def _read(error: BaseException) -> tuple[str, str | None, int]:
    if isinstance(error, Problem):
        return str(error), error.hint, error.code
    if isinstance(error, click.ClickException):
        return _uncapitalised(error.format_message()), _usage(error), WRONG_USE
    # Only now: nothing above needs the engine.
    from laneway.errors import JobExists, LanewayError

    if isinstance(error, JobExists):
        import shlex

        return str(error), f"change it: laneway jobs edit {shlex.quote(error.name)} ...", code_of(error)
    if isinstance(error, LanewayError):
        return str(error), _hint(error), code_of(error)
    where = _place(error)
    return f"{type(error).__name__}: {error}", f"this is unexpected{where}; --debug shows the whole traceback", FAILED


def _hint(error: Exception) -> str | None:
    """Return what to do about an error of a move."""
    from laneway import errors

    if isinstance(error, errors.MoveRefused) and "is not empty" in str(error):
        return "--overwrite deletes what it has"
    if isinstance(error, errors.MoveUnfinished):
        return "it stays shut: start this again to go on waiting, longer with --wait, or --abort to open it again"
    if isinstance(error, errors.MoveDiffers):
        return "nothing was opened: find out who else writes there, then --abort, and move again"
    return None


def code_of(error: Exception) -> int:
    """Return the exit code that one of laneway's errors leads to."""
    from laneway import errors

    codes = (
        (errors.UnknownRun, NOT_FOUND),
        (errors.UnknownTask, NOT_FOUND),
        (errors.UnknownLane, NOT_FOUND),
        (errors.UnknownJob, NOT_FOUND),
        (errors.JobExists, CONFLICT),
        (errors.JobChanged, CONFLICT),
        (errors.WrongState, CONFLICT),
        (errors.NotWaiting, CONFLICT),
        (errors.KeyConflict, CONFLICT),
        (errors.StoreMoved, CONFLICT),
        (errors.MoveRefused, CONFLICT),
        (errors.MoveUnfinished, TIMED_OUT),
        (errors.MoveDiffers, FAILED),
        (errors.UsageError, WRONG_USE),
        (errors.StoreError, UNREACHABLE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), FAILED)


def _usage(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"try: {context.command_path} --help" if context is not None else None


def _uncapitalised(message: str) -> str:
    # Click writes sentences; ours go on after a colon.
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
    """End the process without waiting for threads that do not end."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
