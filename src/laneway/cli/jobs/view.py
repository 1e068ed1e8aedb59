"""How jobs and their fires are shown: in lists, in full, and to programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from laneway.cli.jobs import next_fires
from laneway.cli.jobs.next_fires import NEXT_FIRE
from laneway.cli.shell import formats
from laneway.cli.shell.output import print_json, to_json
from laneway.cli.shell.view import Column, Fact, View, several, show_change
from laneway.core.common.instants import SECOND
from laneway.core.schedules.form import to_dict

if TYPE_CHECKING:
    from laneway.cli.jobs.diagnose import Prerequisites
    from laneway.core.jobs.fires import Fire, NextFire
    from laneway.core.jobs.job import Job
    from laneway.core.jobs.record import JobSpec
    from laneway.core.schedules.preview import Preview

ERROR = 60  # characters of an error beside a fire
LENGTHS = ("max_staleness", "timeout", "backoff", "backoff_cap")
APART = (
    "name",
    "task",
    "schedule",
    "args",
    "enabled",
    "declared",
)  # fields of a spec that the JSON has in another form, or not at all
NOT_OPTIONS = ("task", "schedule", "words", "tz", "args", "source", "origin", "owner", "description")
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


def job_record(job: Job) -> dict[str, Any]:
    """Return the JSON of a job: its options and its state."""
    standing = {
        name: getattr(job, name)
        for name in (
            *("enabled", "reason", "orphaned", "next_fire_at", "last_fire_at", "last_run_id", "last_state"),
            *("last_error", "failures", "held_until", "held_by", "fired", "skipped", "missed"),
            *("created_at", "changed_at"),
        )
    }
    return {"v": 1, "id": job.id, "name": job.name, **values_of(job), **msgspec.to_builtins(standing)}


def values_of(job: Job) -> dict[str, Any]:
    """Return the part of a job that an edit can change."""
    spec: JobSpec = job.spec
    options = {name: getattr(spec, name) for name in spec.__struct_fields__ if name not in APART}
    for name in LENGTHS:
        if options[name] is not None:
            options[name] = _seconds(options[name])
    plain: dict[str, Any] = msgspec.to_builtins(options)
    if spec.breaker is not None:
        plain["breaker"]["open_for"] = _seconds(spec.breaker.length)
    return {
        "task": job.task,
        "schedule": to_dict(job.schedule),
        "words": words(job),
        "tz": job.zone,
        "args": job.args,
        **plain,
    }


def words(job: Job) -> str:
    """Return in words when a job fires, with its time zone; a period without its starting point."""
    from laneway.core.schedules import Every
    from laneway.core.schedules.form import from_dict

    if isinstance(job.schedule, Every):
        plain = to_dict(job.schedule)
        return from_dict({name: value for name, value in plain.items() if name not in ("anchor", "tz")}).describe()
    described = job.schedule.describe()
    return described if job.schedule.tz else f"{described} ({job.zone})"


def _seconds(length: int) -> float:
    return length // SECOND if length % SECOND == 0 else length / SECOND


def state(job: Job) -> str:
    """Return the state of a job."""
    if not job.enabled:
        return job.reason or "disabled"
    if job.orphaned:
        return "orphaned"
    return job.reason or job.held_by or "on"


def _next_cell(job: Job) -> str:
    local = _next_local(job)
    return "" if local is None else f"{local:%a %Y-%m-%d %H:%M:%S}"


def _zone_cell(job: Job) -> str:
    local = _next_local(job)
    return "" if local is None else f"{local:%Z}"


def _next_local(job: Job) -> datetime | None:
    from zoneinfo import ZoneInfo

    return None if job.next_fire_at is None else job.next_fire_at.astimezone(ZoneInfo(job.zone))


def _last_cell(job: Job) -> str:
    return "" if job.last_fire_at is None else f"{_last(job)} {formats.age(job.last_fire_at, formats.now())} ago"


def _last(job: Job) -> str:
    return "fired" if job.last_state is None else job.last_state.value


JOB: View[Job] = View(
    Column("name", lambda job: job.name),
    Column("state", state),
    Column("next", _next_cell),
    Column("zone", _zone_cell),
    Column("last", _last_cell, spare=2),
    Column("task", lambda job: job.task, spare=3),
    Column("owner", lambda job: job.owner, optional=True),
    Column("source", lambda job: "" if job.source.value == "call" else job.source.value, optional=True, spare=1),
    Column("schedule", words),
    json=job_record,
)


class JobPage(NamedTuple):
    """A job with all that its page shows."""

    job: Job
    around: Prerequisites
    fires: Sequence[Preview]  # to come
    past: Sequence[Fire]

    def show(self, *, as_json: bool) -> None:
        """Print the page, or the JSON."""
        _PAGE.show(self, as_json=as_json)
        if self.fires and not as_json:
            click.echo("\nnext fires" + ("" if self.job.enabled else ", were it enabled"))
            next_fires.show(self.fires)
        if self.past and not as_json:
            click.echo("\nlast fires, newest first")
            FIRE.print_table(self.past)


def _page_record(page: JobPage) -> dict[str, Any]:
    return {
        **job_record(page.job),
        "why_not": page.around.reasons(page.job, formats.now()),
        "next_fires": [NEXT_FIRE.record(fire) for fire in page.fires],
        "last_fires": [FIRE.record(fire) for fire in page.past],
    }


def _page_facts(page: JobPage) -> list[Fact]:
    job, spec, now = page.job, page.job.spec, formats.now()
    given = {name: value for name, value in values_of(job).items() if name not in NOT_OPTIONS}
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
        *several("why not", page.around.reasons(job, now)),
    ]


def _option(name: str, value: Any) -> str:
    if name in LENGTHS:
        return formats.span(value) if value else "none"
    if name == "breaker":
        then = "then it is disabled" if value["disable"] else f"open for {formats.span(value['open_for'])}"
        return f"at {value['failures']} failures, {then}"
    return str(value) if isinstance(value, (str, int, float)) else to_json(value, indent=False)


_PAGE: View[JobPage] = View(
    json=_page_record, title=lambda page: f"{page.job.name}  {state(page.job)}", facts=_page_facts
)


def _fire_record(fire: Fire) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(fire)
    return {"v": 1, **plain}


def _nominal(fire: Fire) -> str:
    first, last = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (fire.first_at, fire.last_at))
    return first if first == last else f"{first} to {last}"


def _same_day(nominals: list[str], on_terminal: bool) -> list[str]:
    """Shorten a period within one day, on a terminal."""
    if not on_terminal:
        return nominals
    stretches = (nominal.partition(" to ") for nominal in nominals)
    return [f"{first}{to}{last[11:] if last[:10] == first[:10] else last}" for first, to, last in stretches]


def _took(fire: Fire) -> str:
    if fire.started_at is None or fire.ended_at is None:
        return ""
    return formats.span(fire.ended_at - fire.started_at)


def _note(fire: Fire) -> str:
    note = fire.reason or ""
    if fire.error and fire.state != "succeeded":
        first = fire.error.strip().partition("\n")[0]
        note = ", ".join(filter(None, (note, first if len(first) <= ERROR else f"{first[: ERROR - 3]}...")))
    return note


FIRE: View[Fire] = View(
    Column("number", lambda fire: fire.number),
    Column("nominal", _nominal, shown=_same_day),
    Column("kind", lambda fire: fire.kind.value),
    Column("count", lambda fire: f"{fire.count}{'+' * fire.more}"),
    Column("state", lambda fire: None if fire.state is None else fire.state.value),
    Column("run", lambda fire: fire.run_id, spare=2, shown=lambda ids, short: formats.short_ids(ids) if short else ids),
    Column("took", _took, spare=1),
    Column("note", _note),
    json=_fire_record,
)


def _calendar_record(fire: NextFire) -> dict[str, Any]:
    return {"v": 1, "job": fire.job.name, "id": fire.job.id, "task": fire.job.task, **NEXT_FIRE.record(_preview(fire))}


def _preview(fire: NextFire) -> Preview:
    """Return a job's fire as that of a schedule."""
    from laneway.core.schedules.preview import Preview

    return Preview(fire.at, fire.local, fire.note)


def _once(days: list[str], on_terminal: bool) -> list[str]:
    """Show each day once, on a terminal; in a pipe every line is complete."""
    if not on_terminal:
        return days
    return ["" if place and day == days[place - 1] else day for place, day in enumerate(days)]


CALENDAR: View[NextFire] = View(
    Column("day", lambda fire: f"{fire.local:%a %Y-%m-%d}", shown=_once),
    Column("time", lambda fire: f"{fire.local:%H:%M:%S}"),
    Column("zone", lambda fire: f"{fire.local:%Z}"),
    Column("job", lambda fire: fire.job.name),
    Column("task", lambda fire: fire.job.task),
    Column("when", lambda fire: _distance(fire.at)),
    Column("clock", lambda fire: fire.note.kind if fire.note else None),
    json=_calendar_record,
)


def calendar(fires: Sequence[NextFire], *, as_json: bool) -> None:
    """Print the next fires of many jobs, and the warnings about them below."""
    CALENDAR.show_all(fires, as_json=as_json, none="no job is to fire")
    for fire in fires:
        if fire.note and not as_json:
            click.echo(f"{fire.job.name}: {next_fires.warning(_preview(fire))}")


def show_done(job: Job, done: str, *, as_json: bool) -> None:
    """Print a job after a change."""
    if as_json:
        print_json(job_record(job))
    else:
        click.echo(f"{job.name}  {done}: {words(job)}; {_next(job)}")


def show_edit(was: Job, now: Job, *, as_json: bool) -> None:
    """Print the old and the new values of a job."""
    old, new = ({"name": one.name, **values_of(one)} for one in (was, now))
    if old == new and not as_json:
        click.echo(f"{now.name}  as it was: {words(now)}; {_next(now)}")
        return
    if not as_json:
        for one in (old, new):
            one["schedule"] = one.pop("words")
        if old["schedule"] != new["schedule"]:
            del old["tz"], new["tz"]  # the words name the zone
    show_change(f"{now.name}  ", {"id": now.id}, old, new, as_json=as_json, note=f"; {_next(now)}")


def done(job: Job, what: str) -> str:
    """Return what was done to a job; after `enabled`, also its next fire."""
    return f"{what}; {_next(job)}" if what == "enabled" else what


def _next(job: Job) -> str:
    if job.next_fire_at is None:
        return f"it does not fire ({state(job)})" if not job.enabled else "its next fire follows the end of its run"
    return f"next {_next_local(job):%a %Y-%m-%d %H:%M:%S %Z} ({_distance(job.next_fire_at)})"


def _distance(at: datetime) -> str:
    now = formats.now()
    return f"in {formats.span(at - now)}" if at > now else f"due {formats.span(now - at)} ago"
