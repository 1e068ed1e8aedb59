"""The outcome of a handler's return or raise; the same in the worker's process and in a child."""

from __future__ import annotations

import math
import traceback
from typing import Any

from laneway.core.common.instants import duration
from laneway.core.lifecycle.outcome import Failed, Outcome, Snoozed, Succeeded
from laneway.core.records import codec
from laneway.core.records.run import Failure
from laneway.engine.handlers.task import Task
from laneway.errors import BadArguments, BadSetting, GiveUp, Snooze, StepsChanged

TRACEBACK_LIMIT = 16 * 1024
MESSAGE_LIMIT = 2 * 1024


def after_return(task: Task[..., Any], value: Any, limit: int) -> Outcome:
    """Return the outcome for a returned value. A result that cannot be stored is a failure."""
    try:
        return Succeeded(codec.to_json(value, task.result_words, limit, False))
    except BadArguments as error:
        return Failed(Failure("bad_result", "BadResult", str(error)))


def after_raise(task: Task[..., Any], args: str, error: BaseException) -> Outcome:
    """Return the outcome for a handler that raised when it was called with these arguments (JSON text)."""
    if isinstance(error, Snooze):
        return _snoozed(error)
    if isinstance(error, GiveUp):
        return Failed(failure("gave_up", error))
    if isinstance(error, StepsChanged):
        return Failed(failure("steps_changed", error))
    if isinstance(error, (TypeError, ValueError)):
        # The handler may have changed since the submission: then its arguments are to blame, not its code.
        try:
            task.parameters.check(args)
        except BadArguments as misfit:
            return Failed(Failure("bad_arguments", "BadArguments", str(misfit)))
    return failed(error)


def _snoozed(error: Snooze) -> Outcome:
    try:
        return Snoozed(duration(error.delay, "the delay of Snooze"))
    except BadSetting as wrong:
        return Failed(failure("gave_up", wrong))


def refused_by(error: Exception) -> Failure:
    """Return the failure of a result that a validator refused by raising this error."""
    found = failure("bad_output", error)
    return Failure(found.kind, "BadOutput", f"the validator refused the result: {found.message}", found.traceback)


def failed(error: BaseException) -> Failed:
    """Return the outcome of an exception."""
    return Failed(failure("out_of_memory" if isinstance(error, MemoryError) else "error", error))


def failure(kind: str, error: BaseException) -> Failure:
    """Return what is recorded of an exception: its name, message and traceback, each bounded and writable."""
    trace = "".join(traceback.format_exception(error))
    return Failure(kind, type(error).__name__, message(error), _printable(trace[-TRACEBACK_LIMIT:]))


def wait_of(error: BaseException) -> float | None:
    """Return how many seconds a transient error asks to wait (`retry_after`, as HTTP clients set it), or None."""
    wait: Any = getattr(error, "retry_after", None)
    return float(wait) if isinstance(wait, (int, float)) and 0 <= wait < math.inf else None


def message(error: BaseException) -> str:
    """Return the message of an exception, in a form that can be written."""
    try:
        return _printable(str(error)[:MESSAGE_LIMIT])
    except Exception as broken:  # noqa: BLE001  # an exception whose __str__ raises is still only a failed attempt
        return f"(its message cannot be shown: {type(broken).__name__})"


def _printable(text: str) -> str:
    # A lone surrogate cannot be written as UTF-8, and a failure must always be writable.
    return text.encode(errors="replace").decode()
