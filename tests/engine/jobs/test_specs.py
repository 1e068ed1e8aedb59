"""What somebody says of a job, checked before anything is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from laneway import (
    AnyOf,
    At,
    BadArguments,
    BadSetting,
    Cron,
    DailyAt,
    Every,
    LanewayError,
    Retry,
    Scheduler,
    UnknownTask,
)
from laneway.core.common.instants import SECOND
from laneway.core.jobs.record import JobSpec, Misfire
from laneway.core.records.breakers import Breaker
from laneway.core.records.job_tie import Overlap
from laneway.engine.jobs.specs import patch_of, spec_of


def an_app() -> Scheduler:
    app = Scheduler("memory://", lanes=None)

    @app.task
    def summarize(doc: str, pages: int = 1) -> str:
        """

        Say in short what a document says.

        And more.
        """
        return doc * pages

    @app.task(lane="slow")
    def cleanup() -> None: ...

    return app


def said(schedule: Any = "daily 09:00", task: Any = "summarize", args: Any = None, **options: Any) -> JobSpec:
    args = {"doc": "42"} if args is None and task == "summarize" else args
    return spec_of(an_app().tasks.registry, "digest", schedule, task, args, options)


def patched(spec: JobSpec, **changes: Any) -> JobSpec:
    return patch_of(an_app().tasks.registry, spec, changes)


def test_a_job_has_what_its_task_says_unless_it_says_otherwise() -> None:
    digest, cleanup = said(), said(task="cleanup")

    assert (digest.lane, digest.description) == ("cron", "Say in short what a document says.")
    assert (cleanup.lane, cleanup.description) == ("slow", "")
    assert said(lane="main", description="x").lane == "main"


def test_every_option_is_read() -> None:
    spec = said(
        *("0 9 * * 1-5", "summarize", {"doc": "1"}),
        tz="Asia/Tokyo",
        user="bob",
        session="s",
        priority=3,
        owner="ann",
        enabled=False,
        misfire="all",
        max_staleness=60,
        overlap="queue",
        delete_after_run=True,
        run_on_start=True,
        timeout=30,
        retry=5,
        breaker=Breaker(3),
        backoff=2,
        backoff_cap=60,
    )

    assert spec.rule == Cron("0 9 * * 1-5", tz="Asia/Tokyo")
    assert (spec.user, spec.session, spec.priority, spec.owner, spec.enabled) == ("bob", "s", 3, "ann", False)
    assert (spec.misfire, spec.overlap, spec.max_staleness) == (Misfire.ALL, Overlap.QUEUE, 60 * SECOND)
    assert (spec.delete_after_run, spec.run_on_start, spec.timeout) == (True, True, 30 * SECOND)
    assert (spec.retry, spec.breaker) == (Retry(attempts=5), Breaker(3))
    assert (spec.backoff, spec.backoff_cap) == (2 * SECOND, 60 * SECOND)


def test_what_a_file_says_in_tables_is_read_too() -> None:
    spec = said({"kind": "daily", "hour": 9}, retry={"attempts": 2, "base": 1}, breaker={"failures": 2, "open_for": 9})

    assert spec.rule == DailyAt(9)
    assert (spec.retry, spec.breaker) == (Retry(attempts=2, base=1), Breaker(2, 9))


@pytest.mark.parametrize("never", [None, 0])
def test_nothing_is_too_old_for_a_job_without_staleness(never: int | None) -> None:
    assert said(max_staleness=never).max_staleness == 0
    assert said().max_staleness == 3600 * SECOND


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "daily 25:00"}, "hour is 25; it must be a whole number, 0 to 23"),
        ({"schedule": "monthly 32 09:00"}, "32"),
        ({"schedule": "every 0s"}, "the period must be more than 0"),
        ({"schedule": "every 5ms"}, "a job fires every 10 ms at the most; give it a longer period"),
        (
            {"schedule": AnyOf(Every(60, after="end"), DailyAt(9))},
            'after="end" goes with an Every of its own: AnyOf, Between and Except know of no run that ends',
        ),
        ({"schedule": "evry 5m"}, "did you mean 'every'"),
        ({"schedule": "0 9 31 2 *"}, "31"),
        ({"schedule": "61 9 * * *"}, "61"),
        ({"schedule": 5}, "a schedule is one such as DailyAt"),
        ({"schedule": "daily 09:00", "tz": "Europe/Berlim"}, "did you mean 'Europe/Berlin'"),
        ({"schedule": DailyAt(9), "tz": "Europe/Berlin"}, "give this one its own"),
        ({"task": "sumarize"}, "did you mean 'summarize'"),
        ({"task": print}, "is not a task"),
        ({"args": {}}, "needs 'doc'"),
        ({"args": {"doc": "1", "page": 2}}, "did you mean 'pages'"),
        ({"args": {"doc": "1", "pages": "many"}}, "'pages'"),
        ({"args": [1]}, "must be a dict"),
        ({"prioritty": 1}, "unknown option of a job 'prioritty', did you mean 'priority'"),
        ({"priority": 101}, "-100 to 100"),
        ({"lane": ""}, "a lane needs a name"),
        ({"owner": 7}, "a job's owner needs a name"),
        ({"enabled": "yes"}, "enabled is 'yes'; it must be True or False"),
        ({"misfire": "twice"}, "unknown misfire 'twice'"),
        ({"overlap": "skp"}, "did you mean 'skip'"),
        ({"max_staleness": -1}, "max_staleness is -1"),
        ({"timeout": 0}, "timeout is 0"),
        ({"retry": 0}, "retry is 0; it counts attempts"),
        ({"retry": "often"}, "retry is 'often'"),
        ({"retry": {"atempts": 2}}, "did you mean 'attempts'"),
        ({"breaker": 5}, "it must be a Breaker"),
        ({"breaker": Breaker(2, per="user")}, "leave out per"),
        ({"backoff": -1}, "backoff is -1"),
        ({"description": "x" * 501}, "at most 500"),
        ({"enabled_when": 5}, "it must be a function"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_cannot_be_is_refused_and_the_message_says_why(given: dict[str, Any], message: str) -> None:
    with pytest.raises(LanewayError) as refused:
        said(**given)

    assert message in str(refused.value)


def test_a_name_is_refused_that_is_none() -> None:
    with pytest.raises(BadSetting, match="a job needs a name"):
        spec_of(an_app().tasks.registry, "", "@daily", "cleanup", None, {})


def test_a_task_that_others_know_is_taken_by_its_name_if_that_is_asked_for() -> None:
    registry = an_app().tasks.registry

    spec = spec_of(registry, "far", "@daily", "elsewhere", {"any": 1}, {}, check_task=False)

    assert (spec.task, spec.args) == ("elsewhere", '{"any":1}')
    with pytest.raises(UnknownTask):
        spec_of(registry, "far", "@daily", "elsewhere", {}, {})
    with pytest.raises(BadArguments, match="needs 'doc'"):
        spec_of(registry, "near", "@daily", "summarize", {}, {}, check_task=False)


def test_a_condition_must_be_registered_where_that_is_checked() -> None:
    def open_() -> bool:
        return True

    def check(when: object) -> str | None:
        spec = spec_of(
            *(an_app().tasks.registry, "x", "@daily", "cleanup", None, {"enabled_when": when}),
            conditions={"open_": open_},
        )
        return spec.enabled_when

    assert check(open_) == check("open_") == "open_"
    with pytest.raises(BadSetting, match="did you mean 'open_'"):
        check("open")
    with pytest.raises(BadSetting, match=r"@app\.condition"):
        check(an_app)


def test_a_patch_changes_what_it_gives_and_nothing_else() -> None:
    spec = said(priority=5, retry=2, owner="ann")

    changed = patched(spec, priority=None, lane="main", args={"doc": "7"})

    assert (changed.priority, changed.lane, changed.args) == (0, "main", '{"doc":"7"}')
    assert (changed.retry, changed.owner, changed.schedule, changed.name) == (
        spec.retry,
        "ann",
        spec.schedule,
        "digest",
    )


def test_a_patch_of_the_task_checks_the_old_arguments_against_it() -> None:
    with pytest.raises(BadArguments, match="cleanup has no argument 'doc'"):
        patched(said(), task="cleanup")
    assert patched(said(), task="cleanup", args={}).task == "cleanup"


def test_a_patch_of_the_schedule_keeps_its_zone_unless_one_is_given() -> None:
    spec = said("daily 09:00", tz="Asia/Tokyo")

    assert patched(spec, schedule="daily 10:00").rule == DailyAt(10, tz="Asia/Tokyo")
    assert patched(spec, schedule=Every(60)).rule == Every(60, tz="Asia/Tokyo")
    assert patched(spec, schedule=DailyAt(10, tz="UTC")).rule == DailyAt(10, tz="UTC")
    assert patched(spec, schedule="daily 10:00", tz="Europe/Berlin").rule == DailyAt(10, tz="Europe/Berlin")
    assert patched(spec, tz="Europe/Berlin").rule == DailyAt(9, tz="Europe/Berlin")
    assert patched(spec, tz=None).rule == DailyAt(9)


def test_a_patch_of_something_unknown_is_refused() -> None:
    with pytest.raises(BadSetting, match="did you mean 'schedule'"):
        patched(said(), shedule="@daily")
    with pytest.raises(BadSetting, match="hour is 25"):
        patched(said(), schedule="daily 25:00")


def test_an_instant_keeps_its_zone_too() -> None:
    spec = said(At(datetime.fromisoformat("2126-01-01T09:00"), tz="Asia/Tokyo"))

    changed = patched(spec, schedule="at 2126-01-02T09:00")

    assert changed.rule == At(datetime.fromisoformat("2126-01-02T09:00"), tz="Asia/Tokyo")


@pytest.mark.checklist("W1-6")
@pytest.mark.parametrize(
    "bad",
    [lambda: DailyAt(25), lambda: Every(0), lambda: Cron("61 * * * *"), lambda: At("soon")],  # type: ignore[arg-type]
)
async def test_a_bad_schedule_is_refused_when_it_is_made(bad) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadSetting):
        bad()
