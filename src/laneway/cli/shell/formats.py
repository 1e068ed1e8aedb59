"""Text for people: durations, instants, sizes, changes, and the state of a run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from laneway.cli.shell.output import printable, speaks_unicode

if TYPE_CHECKING:
    from laneway.core.records.memos import Question
    from laneway.core.records.run import Run

BAR = 20  # characters
SHORTEST_ID = 12  # characters
SHORT = 100  # characters of a question that must fit on one line


def span(length: timedelta | float) -> str:
    """Format a duration in at most two units: 4ms, 1.2s, 34s, 4m12s, 3h05m, 4d02h."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def spoken(length: timedelta | float) -> str:
    """Format a duration for a sentence: 4 ms, 1.2 s, 34 s, 4 m 12 s."""
    import re

    return re.sub(r"([a-z]+)(\d)", r"\1 \2", re.sub(r"(\d)([a-z])", r"\1 \2", span(length)))


def size(count: int) -> str:
    """Format a number of bytes: 812 bytes, 4.2 KiB, 1.3 GiB."""
    if count < 1024:
        return f"{count} bytes"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1023.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def age(instant: datetime, now: datetime) -> str:
    """Format the time since an instant in one unit: 0s, 34s, 4m, 3h, 12d."""
    seconds = max(0, int((now - instant).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def moment(instant: datetime, now: datetime) -> str:
    """Format an instant in local time, with its distance from now."""
    local = instant.astimezone()
    distance = f"{span(now - instant)} ago" if instant <= now else f"in {span(instant - now)}"
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03} {local:%z}  ({distance})"


def now() -> datetime:
    """Return the current instant."""
    return datetime.now(UTC)


def waited(run: Run, now: datetime) -> str:
    """Return how long the newest attempt waited after it was due; negative if it is not due yet."""
    if run.started_at is not None and (run.ended or run.state == "running"):
        return span(max(run.started_at - run.due_at, timedelta()))
    if run.ended:
        return ""
    return span(now - run.due_at) if run.due_at <= now else f"-{span(run.due_at - now)}"


def ran(run: Run, now: datetime) -> str:
    """Return how long the newest attempt took, or has taken so far."""
    if run.started_at is None or not (run.ended or run.state == "running"):
        return ""
    return span((run.ended_at or now) - run.started_at)


def failure(run: Run) -> str:
    """Return in one line why the newest ended attempt failed."""
    if run.error is None or run.state == "succeeded":
        return run.reason or ""
    first = run.error.message.strip().partition("\n")[0]
    return f"{run.error.type}: {first}" if first else run.error.type


def standing(run: Run) -> str:
    """Return the state of a run, with the request that is open for it."""
    return f"{run.state.value}, {requested(run)}" if run.request is not None else run.state.value


def standing_at(run: Run, now: datetime) -> str:
    """Say how a run stands, and since when or until when."""
    said = standing(run)
    if run.state == "running" and run.started_at is not None:
        return f"{said} for {spoken(max(now - run.started_at, now - now))}"
    if run.wait is not None:
        return f"{said}, {waited_for(run)}"
    if run.due_at > now:
        return f"{said}, due in {spoken(run.due_at - now)}"
    return said


def requested(run: Run) -> str:
    """Return the request that a running or waiting run has not carried out yet."""
    pause = "when it goes on" if run.state == "waiting" else "at its next checkpoint or step"
    return {"cancel": "cancel requested", "pause": f"pause requested: {pause}"}.get(run.request or "", "")


def note(run: Run) -> str:
    """Return the note of a run in a list: the open request and what it waits for, else its failure."""
    return ", ".join(filter(None, (requested(run), waited_for(run)))) or failure(run)


def waited_for(run: Run) -> str:
    """Return in short what a run waits for."""
    if run.wait is None:
        return ""
    said = [f"asks: {asked(question, SHORT)}" for question in run.wait.questions]
    count = len(run.wait.calls)
    return "; ".join([*said, *([f"has called {count} run{'s' * (count != 1)}"] if count else [])])


def asked(question: Question, most: int | None = None) -> str:
    """Return a question in one line of at most `most` characters."""
    said = printable(question.question)
    return said if most is None or len(said) <= most else f"{said[: most - 3]}..."


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return the shortest prefixes, all of one length, that tell the ids apart."""
    length = SHORTEST_ID
    ordered = sorted(ids)
    for one, next_one in itertools.pairwise(ordered):
        alike = next((n for n, (a, b) in enumerate(zip(one, next_one, strict=False)) if a != b), len(one))
        length = max(length, alike + 1)
    return [run_id[:length] for run_id in ids]


def change(was: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Format a change: `limit 30 -> 40, per_user none -> 2`; the whole record if it is new or has not changed."""
    if was is None or was == now:
        said = ", ".join(f"{name} {_worded(value)}" for name, value in now.items() if value is not None)
        return f"{'new' if was is None else 'as it was'}: {said or 'nothing is set'}"
    pairs = ((name, was.get(name), now.get(name)) for name in {**was, **now})
    return ", ".join(f"{name} {_worded(old)} -> {_worded(new)}" for name, old, new in pairs if old != new)


def _worded(value: object) -> str:
    return "none" if value is None else printable(value)


def bar(fraction: float, width: int = BAR, *, fine: bool | None = None) -> str:
    """Draw a progress bar; `fine` says whether it may use more than ASCII."""
    full = round(fraction * width)
    done, rest = ("━", "─") if (speaks_unicode() if fine is None else fine) else ("#", "-")
    return done * full + rest * (width - full)
