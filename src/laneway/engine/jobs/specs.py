"""Checked JobSpecs from what a caller, code or a file says about a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from laneway.core.common.checks import checked_name
from laneway.core.jobs.anchor import schedule_text
from laneway.core.jobs.record import JobSpec, Source
from laneway.core.records import codec
from laneway.core.records.codec import ARGS_LIMIT
from laneway.core.schedules import At, Schedule
from laneway.core.schedules.calendar.zones import checked_zone
from laneway.core.schedules.form import from_dict, to_dict
from laneway.core.schedules.text import FORMS, read
from laneway.engine.handlers.task import Registry, Task
from laneway.engine.jobs.options import OPTIONS, Conditions, checked_options, default_fields
from laneway.errors import BadArguments, BadSetting, UnknownTask

LEAST = 0.01  # seconds of a period; with less, nobody could change the job between two fires
CHANGES = ("name", "schedule", "task", "args", *OPTIONS)


def spec_of(
    registry: Registry,
    name: object,
    schedule: object,
    task: object,
    args: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    source: Source = Source.CALL,
    origin: str = "",
    check_task: bool = True,
    conditions: Conditions | None = None,
    limit: int = ARGS_LIMIT,
) -> JobSpec:
    """Return a new job's spec, fully checked. Raises UnknownTask, BadArguments or BadSetting.

    `schedule` is a Schedule, a line of text, or plain values; `options` are those of `options.OPTIONS`. Without
    `check_task` any task name is accepted; without `conditions` any condition name is.
    """
    known, task_name = _task(registry, task, check_task=check_task)
    fields = default_fields(known) | checked_options(options, known, conditions)
    spec = JobSpec(
        name=checked_name(name, "job"),
        task=task_name,
        schedule=_schedule(schedule, options),
        args=_args(known, task_name, args or {}, limit),
        source=source,
        origin=origin,
        **fields,
    )
    if spec.delete_after_run and source is not Source.CALL and not isinstance(spec.rule, At):
        raise BadSetting(
            f"job {spec.name!r} would come back, because it is declared: delete_after_run goes with At, one instant"
        )
    return spec


def patch_of(
    registry: Registry,
    spec: JobSpec,
    changes: Mapping[str, Any],
    *,
    check_task: bool = True,
    conditions: Conditions | None = None,
    limit: int = ARGS_LIMIT,
) -> JobSpec:
    """Return the spec with these changes, checked as by `spec_of`; other fields stay as they are.

    A schedule without a time zone keeps that of the job's schedule, unless `tz` is given. `tz` alone moves the schedule
    to that zone, None to the zone of the job's owner.
    """
    for change in changes:
        if change not in CHANGES:
            raise BadSetting.unknown("option of a job", change, CHANGES)
    options = {name: value for name, value in changes.items() if name in OPTIONS}
    moved = "task" in changes
    known, task_name = _task(registry, changes.get("task", spec.task), check_task=check_task and moved)
    fields = checked_options(options, known, conditions)
    if "name" in changes:
        fields["name"] = checked_name(changes["name"], "job")
    if "schedule" in changes or "tz" in changes:
        fields["schedule"] = _schedule_changed(spec, changes)
    if moved or "args" in changes:
        args = changes["args"] if "args" in changes else codec.from_json(spec.args)
        fields |= {"task": task_name, "args": _args(known, task_name, args or {}, limit)}
    return msgspec.structs.replace(spec, **fields)


def _task(registry: Registry, task: object, *, check_task: bool) -> tuple[Task[..., Any] | None, str]:
    try:
        known = registry.known(task)
    except UnknownTask:
        if check_task:
            raise
        return None, checked_name(task, "task")
    return known, known.name


def _args(task: Task[..., Any] | None, name: str, args: object, limit: int) -> str:
    if task is not None:
        return task.parameters.pack(args, limit)  # type: ignore[arg-type]  # it checks that itself
    if not isinstance(args, Mapping):
        raise BadArguments(f"the arguments of {name} must be a dict of names and values, not {type(args).__name__}")
    return codec.to_json(dict(args), f"the arguments of {name}", limit)


def _schedule(given: object, options: Mapping[str, Any]) -> str:
    tz = checked_zone(options.get("tz"))
    if tz is not None and isinstance(given, Schedule):
        raise BadSetting(
            f"tz goes with a schedule in words; give this one its own: {type(given).__name__}(..., tz={tz!r})"
        )
    return _text(_rule(given, tz))


def _schedule_changed(spec: JobSpec, changes: Mapping[str, Any]) -> str:
    # The old schedule is read in its stored form: one that this process cannot read can still be replaced.
    old = codec.from_json(spec.schedule)
    plain = to_dict(_rule(changes["schedule"], None)) if "schedule" in changes else old
    tz = checked_zone(changes["tz"]) if "tz" in changes else plain.get("tz", old.get("tz"))
    plain = {name: value for name, value in plain.items() if name != "tz"} | ({"tz": tz} if tz else {})
    return _text(from_dict(plain))


def _text(rule: Schedule) -> str:
    plain = to_dict(rule)
    if any(one["kind"] == "every" and one["period"] < LEAST for one in (plain, *_inside(plain))):
        raise BadSetting(f"a job fires every {LEAST * 1000:g} ms at the most; give it a longer period")
    if any(inner.get("after") == "end" for inner in _inside(plain)):
        raise BadSetting(
            'after="end" goes with an Every of its own: AnyOf, Between and Except know of no run that ends'
        )
    return schedule_text(plain)


def _inside(plain: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for inner in (*plain.get("schedules", ()), *([plain["schedule"]] if "schedule" in plain else ())):
        yield inner
        yield from _inside(inner)


def _rule(given: object, tz: str | None) -> Schedule:
    if isinstance(given, Schedule):
        return given
    if isinstance(given, str):
        return read(given, tz)
    if isinstance(given, Mapping):
        return from_dict(given if tz is None or "tz" in given else {**given, "tz": tz})
    kind = type(given).__name__
    raise BadSetting(f"a schedule is one such as DailyAt(9), or a line such as {FORMS}; this is of type {kind}")
