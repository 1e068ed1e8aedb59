"""The result of a submission in words."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.core.records.run import Receipt


def told(receipt: Receipt, options: Mapping[str, Any], *, named: bool) -> str:
    """Return a receipt as one line; `named` adds the id of an accepted run.

    `options` are those of `submit`, with the lane of the run.
    """
    notes = [_outcome(receipt, named=named)]
    if receipt.reason == "lane_unknown":
        notes.append(f"there is no lane {options['lane']!r}, so it is in main")
    elif receipt.reason and receipt.reason != "answered":
        notes.append(receipt.reason)
    if receipt.position:
        # Runs before it in a lane may be due later, or be overtaken: users take turns.
        where = "ahead of it in its session" if options.get("session") else "pending in its lane before it"
        notes.append(f"{receipt.position} {where}")
    if receipt.outcome.value == "accepted" and isinstance(due := options.get("at"), datetime):
        at = f"{due:%Y-%m-%d %H:%M:%S %z}"
        # A store sets the due time to the time of acceptance at the earliest.
        notes.append(f"due {at}" if due > datetime.now(UTC) else f"due at once: {at} is past")
    return "; ".join(notes)


def refusal(receipt: Receipt, *, task: str, lane: str, session: str | None) -> tuple[str, str | None]:
    """Return why a submission was refused, with the reason of the JSON in parentheses, and the command that helps."""
    reason = receipt.reason or ""
    room = shlex.quote(session or "")
    texts = {
        "lane_full": (
            f"lane {lane} has as many pending runs as it may have",
            f"see how full it is: laneway lanes show {shlex.quote(lane)}",
        ),
        "task_disabled": (f"task {task} is disabled", f"accept it again: laneway tasks enable {shlex.quote(task)}"),
        "session_busy": (f"session {session} is busy", f"see what goes on in it: laneway sessions show {room}"),
        "session_full": (
            f"session {session} has as many queued runs as it may have",
            f"see its rule and its queue: laneway sessions show {room}",
        ),
    }
    if reason not in texts:
        return reason or "no reason was given", None
    why, remedy = texts[reason]
    return f"{why} ({reason})", remedy


def _outcome(receipt: Receipt, *, named: bool) -> str:
    run = f"run {receipt.run_id}"
    if receipt.reason == "answered":
        return f"answered: {run} had asked, and goes on with it"
    match receipt.outcome.value:
        case "merged":
            return f"merged into {run}, which has not started yet"
        case "steered":
            return f"steered: {run} finds it in its inbox"
        case "existing":
            state = f", which {_stands(receipt.state.value)}" if receipt.state else ""
            return f"existing: an earlier submission of this key made {run}{state}"
        case outcome:
            return f"{outcome} as {receipt.run_id}" if named else outcome


def _stands(state: str) -> str:
    return {
        "succeeded": "has succeeded",
        "failed": "has failed",
        "cancelled": "was cancelled",
        "dropped": "was dropped",
    }.get(state, f"is {state}")
