"""Jobs for people: a table, one with all there is to say, and why it does not fire."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from laneway.cli.jobs import next_fires
from laneway.cli.jobs.records import LENGTHS, job_record, plain, said, words
from laneway.cli.shell import facts, formats
from laneway.cli.shell.errors import FINE
from laneway.cli.shell.output import is_terminal, print_json, to_json

if TYPE_CHECKING:
    from laneway.cli.jobs.diagnose import Surroundings
    from laneway.core.jobs.fires import Fire, NextFire
    from laneway.core.jobs.job import Job
    from laneway.core.schedules.preview import Preview

HEADS = ("name", "state", "next", "zone", "last", "task", "schedule")
OPTIONAL = ("owner", "source")
ERROR = 60  # characters of an error beside a fire
UNSAID = ("task", "schedule", "words", "tz", "args", "source", "origin", "owner", "description")
DEFAULTS: dict[str, Any] = {
    "priority": 0,
    "delete_after_run": False,
    "run_on_start": False,
    "backoff": 0,
    "backoff_cap": 0,
    "alert_after": 3,
    "misfire": "once",
    "max_staleness": 3600,
    "overlap": "skip",
}


def table(jobs: Sequence[Job]) -> None:
    """Print the jobs in the order given; owner and source only if some have one that matters."""
    from laneway.cli.shell.tables import show

    rows = [_row(job) for job in jobs]
    heads = (*HEADS[:-1], *(name for name in OPTIONAL if any(row[name] for row in rows)), HEADS[-1])
    show(heads, [[row[name] for name in heads] for row in rows], spare=("source", "last", "task"))


def state(job: Job) -> str:
    """Say in a word or two how a job stands."""
    if not job.enabled:
        return job.reason or "disabled"
    if job.orphaned:
        return "orphaned"
    return job.reason or job.held_by or "on"


def told(job: Job, done: str, *, as_json: bool) -> int:
    """Print a job that something was done to."""
    if as_json:
        print_json(job_record(job))
    else:
        click.echo(f"{job.name}  {done}: {words(job)}; {_next(job)}")
    return FINE


def told_change(was: Job, now: Job, *, as_json: bool) -> None:
    """Print what a job was and what it is."""
    old, new = ({"name": one.name, **said(one)} for one in (was, now))
    if as_json:
        print_json({"v": 1, "id": now.id, "was": old, "is": new})
        return
    for one in (old, new):
        one["schedule"] = one.pop("words")
    if old["schedule"] != new["schedule"]:
        del old["tz"], new["tz"]  # the words have it
    if old == new:
        click.echo(f"{now.name}  as it was: {words(now)}; {_next(now)}")
    else:
        click.echo(f"{now.name}  {formats.change(old, new)}; {_next(now)}")


def show(job: Job, around: Surroundings, fires: Sequence[Preview], past: Sequence[Fire]) -> None:
    """Print everything about a job: when it fires, why it does not, what it starts, its next and its last fires."""
    now = formats.now()
    facts.show(f"{job.name}  {state(job)}", [*_facts(job, now), *facts.several("why not", around.reasons(job, now))])
    if fires:
        click.echo("\nnext fires" + ("" if job.enabled else ", were it enabled"))
        next_fires.show(fires)
    if past:
        click.echo("\nlast fires, newest first")
        fire_table(past)


def fire_table(fires: Sequence[Fire]) -> None:
    """Print what became of fires."""
    from laneway.cli.shell.tables import show as table_of

    heads = ("number", "nominal", "kind", "count", "state", "run", "took", "note")
    rows = [_fire_row(fire) for fire in fires]
    if is_terminal():
        at = heads.index("run")
        short = iter(formats.short_ids([row[at] for row in rows if row[at]]))
        rows = [(*row[:at], next(short) if row[at] else "", *row[at + 1 :]) for row in rows]
    table_of(heads, rows, spare=("took", "run"))


def _row(job: Job) -> dict[str, str]:
    now = formats.now()
    last = "" if job.last_fire_at is None else f"{_last(job)} {formats.age(job.last_fire_at, now)} ago"
    local = None if job.next_fire_at is None else _local(job.next_fire_at, job.zone)
    return {
        "name": job.name,
        "state": state(job),
        "next": "" if local is None else f"{local:%a %Y-%m-%d %H:%M:%S}",
        "zone": "" if local is None else f"{local:%Z}",
        "last": last,
        "task": job.task,
        "owner": job.owner or "",
        "source": "" if job.source.value == "call" else job.source.value,
        "schedule": words(job),
    }


def _last(job: Job) -> str:
    return "fired" if job.last_state is None else job.last_state.value


def _local(at: datetime, zone: str) -> datetime:
    from zoneinfo import ZoneInfo

    return at.astimezone(ZoneInfo(zone))


def _next(job: Job) -> str:
    if job.next_fire_at is None:
        return f"it does not fire ({state(job)})" if not job.enabled else "its next fire follows the end of its run"
    local = _local(job.next_fire_at, job.zone)
    return f"next {local:%a %Y-%m-%d %H:%M:%S %Z} ({_distance(job.next_fire_at)})"


def _distance(at: datetime) -> str:
    now = formats.now()
    return f"in {formats.span(at - now)}" if at > now else f"due {formats.span(now - at)} ago"


def _facts(job: Job, now: datetime) -> list[tuple[str, str]]:
    spec = job.spec
    given = {name: value for name, value in said(job).items() if name not in UNSAID}
    options = ", ".join(
        f"{name} {_option(name, value)}"
        for name, value in given.items()
        if value is not None and value != DEFAULTS.get(name)
    )
    counts = f"{job.fired} fired, {job.skipped} skipped, {job.missed} missed"
    return [
        ("id", job.id),
        ("for", spec.description),
        ("fires", words(job)),
        ("next", "" if job.next_fire_at is None else formats.moment(job.next_fire_at, now)),
        ("starts", f"{job.task} {to_json(job.args, indent=False)}"),
        ("options", options),
        ("owner", job.owner or ""),
        ("source", f"{spec.source.value} {spec.origin}".rstrip()),
        ("made", formats.moment(job.created_at, now)),
        ("changed", "" if job.changed_at == job.created_at else formats.moment(job.changed_at, now)),
        ("last", "" if job.last_fire_at is None else f"{_last(job)}, for {formats.moment(job.last_fire_at, now)}"),
        ("error", job.last_error or ""),
        ("so far", counts),
    ]


def _option(name: str, value: Any) -> str:
    if name in LENGTHS:
        return formats.span(value) if value else "none"
    if name == "breaker":
        then = "then it is disabled" if value["disable"] else f"open for {formats.span(value['open_for'])}"
        return f"at {value['failures']} failures, {then}"
    return str(value) if isinstance(value, (str, int, float)) else to_json(value, indent=False)


def _fire_row(fire: Fire) -> tuple[str, ...]:
    nominal = f"{fire.first_at:%Y-%m-%dT%H:%M:%SZ}"
    if nominal != (last := f"{fire.last_at:%Y-%m-%dT%H:%M:%SZ}"):
        on_same_day = is_terminal() and fire.last_at.date() == fire.first_at.date()
        nominal += f" to {last[11:] if on_same_day else last}"
    took = "" if None in (fire.started_at, fire.ended_at) else formats.span(fire.ended_at - fire.started_at)  # type: ignore[operator]
    note = fire.reason or ""
    if fire.error and fire.state != "succeeded":
        first = fire.error.strip().partition("\n")[0]
        note = ", ".join(filter(None, (note, first if len(first) <= ERROR else f"{first[: ERROR - 3]}...")))
    return (
        str(fire.number),
        nominal,
        fire.kind.value,
        f"{fire.count}{'+' * fire.more}",
        "" if fire.state is None else fire.state.value,
        fire.run_id or "",
        took,
        note,
    )


def done(job: Job, what: str) -> str:
    """Say what was done to a job, and when it fires next if that is the point."""
    return f"{what}; {_next(job)}" if what == "enabled" else what


def calendar(fires: Sequence[NextFire]) -> None:
    """Print fires to come in order, under the days they fall on."""
    from laneway.cli.shell.tables import show as table_of

    rows, day = [], ""
    for fire in fires:
        today = f"{fire.local:%a %Y-%m-%d}"
        row = (f"{fire.local:%H:%M:%S}", f"{fire.local:%Z}", fire.job.name, fire.job.task, _distance(fire.at))
        # In a pipe every line stands for itself.
        rows.append(("" if today == day and is_terminal() else today, *row, fire.note.kind if fire.note else ""))
        day = today
    table_of(("day", "time", "zone", "job", "task", "when", "clock"), rows)
    for fire in fires:
        if fire.note:
            click.echo(f"{fire.job.name}: {next_fires.warning(plain(fire))}")
