"""The anchor of a job's schedule: from when its periods count. It stays while the period stays the same."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import msgspec

from laneway.core.common.instants import instant
from laneway.core.jobs.record import JobSpec
from laneway.core.records import codec
from laneway.core.schedules import Schedule
from laneway.core.schedules.form import from_dict, to_dict


def anchored(spec: JobSpec, now: int, before: JobSpec | None = None) -> JobSpec:
    """Return the spec with an anchor in each period of its schedule that has none.

    A period that was the same `before` keeps its anchor, so an edit of something else moves no fire. Others get `now`.
    """
    old = None if before is None else codec.from_json(before.schedule)
    plain = _anchored(codec.from_json(spec.schedule), old, _text(now))
    return msgspec.structs.replace(spec, schedule=schedule_text(to_dict(from_dict(plain))))


def anchored_rule(rule: Schedule, now: int) -> Schedule:
    """Return a schedule as a job that is created now would have it."""
    return from_dict(_anchored(to_dict(rule), None, _text(now)))


def schedule_text(plain: dict[str, Any]) -> str:
    """Return a schedule's plain values in the form that a spec keeps."""
    return msgspec.json.encode(plain).decode()


def _anchored(plain: dict[str, Any], old: dict[str, Any] | None, now: str) -> dict[str, Any]:
    old = old if old is not None and old.get("kind") == plain["kind"] else {}
    if plain["kind"] == "every" and "anchor" not in plain and plain.get("after") != "end":
        kept = old.get("anchor") if old.get("period") == plain["period"] else None
        return plain | {"anchor": kept or now}
    if "schedule" in plain:
        return plain | {"schedule": _anchored(plain["schedule"], old.get("schedule"), now)}
    if "schedules" in plain:
        olds = [*old.get("schedules", ()), *[None] * len(plain["schedules"])]
        return plain | {"schedules": [_anchored(one, olds[nth], now) for nth, one in enumerate(plain["schedules"])]}
    return plain


def _text(now: int) -> str:
    return instant(now).astimezone(UTC).isoformat().replace("+00:00", "Z")
