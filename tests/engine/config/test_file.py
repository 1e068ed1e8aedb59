"""Jobs and lanes of `laneway.toml`: synced at a worker's start and when the file changes, whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from laneway import BadSetting, Lane, Scheduler
from laneway.core.common.instants import SECOND, instant
from laneway.core.jobs.after import ended
from laneway.core.jobs.plan import created, switched
from laneway.core.jobs.record import Halt, JobRecord, JobSpec, Misfire, Source
from laneway.core.records.states import RunState
from laneway.engine.config import job_tables
from laneway.engine.config.watcher import AGAIN, EVERY
from laneway.engine.handlers.task import Registry
from laneway.engine.jobs.specs import spec_of
from laneway.ports.jobs import AddJob, EditJob, JobFilter, RemoveJob
from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.watched_store import WatchedStore

SETTLED = 2 * EVERY + 0.1  # a change is seen at one look and applied at the next
DIGEST = '[jobs.digest]\nschedule = "0 9 * * *"\ntask = "summarize"\nargs = { doc = "daily" }\n'
SWEEP = '[jobs.sweep]\nschedule = "every 30m"\ntask = "cleanup"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "laneway.toml"


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return MemoryStore(clock)


def scheduler(store: Store, clock: FakeClock, **settings: Any) -> Scheduler:
    app = Scheduler(store=store, clock=clock, **settings)

    @app.task
    async def summarize(doc: str, tags: list[str] | None = None) -> str:
        return doc

    @app.task(lane="background")
    async def cleanup() -> None: ...

    return app


@pytest_asyncio.fixture
async def app(file: Path, store: Store, clock: FakeClock) -> AsyncIterator[Scheduler]:
    async with scheduler(store, clock) as app:
        yield app


def write(file: Path, text: str) -> None:
    """Write the file as editors do that mean well: whole, under another name, then moved into its place."""
    beside = file.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def scribble(file: Path, text: str) -> None:
    """Write into the file itself."""
    file.write_bytes(text.encode(errors="surrogateescape"))


def remove(file: Path) -> None:
    file.unlink()


async def jobs(store: Store) -> dict[str, JobRecord]:
    return {job.spec.name: job for job in await store.jobs(JobFilter())}


async def test_a_worker_adds_what_the_file_says_when_it_starts(app: Scheduler, store: Store, file: Path) -> None:
    write(file, DIGEST + 'tz = "Asia/Tokyo"\nmisfire = "all"\ntimeout = "5m"\n' + SWEEP)

    async with app.running():
        found = await jobs(store)

    assert set(found) == {"digest", "sweep"}
    spec = found["digest"].spec
    assert spec.rule.describe() == "at 09:00 (Asia/Tokyo)"
    assert (spec.task, spec.args, spec.misfire, spec.timeout) == (
        "summarize",
        '{"doc":"daily"}',
        Misfire.ALL,
        300 * SECOND,
    )
    assert (spec.source, spec.origin) == (Source.FILE, str(file))
    assert found["sweep"].spec.lane == "background"


async def test_every_option_can_be_written_in_a_file(app: Scheduler, store: Store, file: Path) -> None:
    write(
        file,
        """
[jobs."a name with spaces"]
schedule = { kind = "between", start = "09:00", end = "17:00", schedule = { kind = "every", period = 600 } }
tz = "Europe/Berlin"
task = "summarize"
args = { doc = "x", tags = ["new"] }
lane = "foreground"
user = "ann"
session = "chat-7"
priority = 5
owner = "ben"
description = "what it is for"
enabled = false
max_staleness = "3h"
overlap = "queue"
retry = { attempts = 2, base = "10s", cap = "1m" }
breaker = { failures = 3, open_for = "10m" }
backoff = "30s"
backoff_cap = 3600

[jobs.launch]
schedule = 2026-12-01T09:00:00
tz = "Europe/Berlin"
task = "cleanup"
delete_after_run = true
""",
    )

    async with app.running():
        found = await jobs(store)

    assert app.status().file_error is None
    spec = found["a name with spaces"].spec
    assert (spec.owner, spec.user, spec.session, spec.priority, spec.lane) == ("ben", "ann", "chat-7", 5, "foreground")
    assert (spec.max_staleness, spec.backoff, spec.backoff_cap) == (10_800 * SECOND, 30 * SECOND, 3600 * SECOND)
    assert spec.retry is not None
    assert spec.breaker is not None
    assert (spec.retry.base, spec.retry.cap, spec.breaker.length) == (10, 60, 600 * SECOND)
    assert not found["a name with spaces"].is_on
    next_at = found["launch"].state.next_at
    assert next_at is not None
    assert instant(next_at).isoformat() == "2026-12-01T08:00:00+00:00"


async def test_an_edit_is_seen_without_a_restart_and_nothing_is_made_up_for(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST)
    async with app.running():
        before = (await jobs(store))["digest"]
        clock.step(10 * 3600)

        write(file, DIGEST.replace("0 9", "0 8") + SWEEP)  # eight o'clock has passed today
        await clock.advance(SETTLED)
        after = await jobs(store)

    assert set(after) == {"digest", "sweep"}
    digest = after["digest"]
    assert (digest.id, digest.created_at) == (before.id, before.created_at)
    assert digest.state.next_at is not None
    assert instant(digest.state.next_at).isoformat() == "2026-01-02T08:00:00+00:00"


async def test_what_became_of_a_job_survives_an_edit(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST)
    async with app.running():
        job = (await jobs(store))["digest"]
        failed = ended(job, "a" * 32, RunState.FAILED, "it broke", clock.now())
        assert failed is not None
        await store.change_job(EditJob(msgspec.structs.replace(failed, version=job.version)))

        write(file, DIGEST + 'description = "another"\n')
        await clock.advance(SETTLED)
        after = (await jobs(store))["digest"]

    assert (after.spec.description, after.state.failures) == ("another", 1)


async def test_what_the_file_says_no_more_is_removed_and_nothing_else(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST + SWEEP)
    by_call = spec_of(app.tasks.registry, "mine", "daily 03:00", "cleanup", {}, {})
    other = spec_of(
        app.tasks.registry, "theirs", "daily 03:00", "cleanup", {}, {}, source=Source.FILE, origin="/other.toml"
    )
    for nth, spec in enumerate((by_call, other)):
        await store.change_job(AddJob(created(f"{nth:032}", spec, clock.now(), "UTC")))
    async with app.running():
        write(file, SWEEP)
        await clock.advance(SETTLED)

        assert set(await jobs(store)) == {"sweep", "mine", "theirs"}
        write(file, "[jobs]\n")
        await clock.advance(SETTLED)
        assert set(await jobs(store)) == {"mine", "theirs"}


async def test_a_worker_that_starts_takes_nothing_away_before_a_second_look(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST + SWEEP)
    async with app.running():
        pass
    write(file, SWEEP)

    async with app.running():
        at_once = set(await jobs(store))
        await clock.advance(EVERY + 0.1)
        later = set(await jobs(store))

    assert (at_once, later) == ({"digest", "sweep"}, {"sweep"})


async def test_a_file_that_was_not_touched_for_a_while_is_believed_at_once(file: Path) -> None:
    clock = FakeClock(time.time_ns() // 1000 + 60 * SECOND)  # a minute after it was written
    store = MemoryStore(clock)
    for text in (DIGEST + SWEEP, SWEEP):
        write(file, text)
        async with scheduler(store, clock) as app:
            await app.drain()  # which never takes a second look

    assert set(await jobs(store)) == {"sweep"}


BROKEN = {
    "not TOML": ("[jobs.digest\n", "is not TOML"),
    "half a value": ('[jobs.digest]\nschedule = "0 9 * *', "is not TOML"),
    "empty": ("", "is empty, and jobs of it are there (digest)"),
    "blank": ("\n  \n# all gone\n", "is empty, and jobs of it are there (digest)"),
    "nested too deep": ("x = " + "[" * 5000, "is not TOML"),
    "not text": ("\udcff", "cannot be read"),
    "no schedule": ('[jobs.new]\ntask = "cleanup"\n', '[jobs.new]: it has no schedule; write schedule = "daily 09:00"'),
    "no task": ('[jobs.new]\nschedule = "@daily"\n', '[jobs.new]: it has no task; write task = "summarize"'),
    "unknown task": (
        '[jobs.new]\nschedule = "@daily"\ntask = "cleanpu"\n',
        "[jobs.new]: unknown task 'cleanpu', did you mean 'cleanup'?",
    ),
    "hour 25": ('[jobs.new]\nschedule = "0 25 * * *"\ntask = "cleanup"\n', "[jobs.new]: cron '0 25 * * *': hour '25'"),
    "interval 0": ('[jobs.new]\nschedule = "every 0s"\ntask = "cleanup"\n', "[jobs.new]: Every(0"),
    "unknown zone": (
        '[jobs.new]\nschedule = "@daily"\ntz = "Berlin"\ntask = "cleanup"\n',
        "[jobs.new]: unknown time zone 'Berlin', did you mean 'Europe/Berlin'?",
    ),
    "missing argument": ('[jobs.new]\nschedule = "@daily"\ntask = "summarize"\n', "[jobs.new]: "),
    "args": ('[jobs.new]\nschedule = "@daily"\ntask = "cleanup"\nargs = "x"\n', "[jobs.new]: args is 'x'"),
    "schedule": ('[jobs.new]\nschedule = 5\ntask = "cleanup"\n', "[jobs.new]: "),
    "option": (
        '[jobs.new]\nschedule = "@daily"\ntask = "cleanup"\nmisfrie = "all"\n',
        "[jobs.new]: unknown option of a job 'misfrie', did you mean 'misfire'?",
    ),
    "duration": (
        '[jobs.new]\nschedule = "@daily"\ntask = "cleanup"\ntimeout = "soon"\n',
        "[jobs.new]: timeout is 'soon'; write seconds, or units as in",
    ),
    "condition": (
        '[jobs.new]\nschedule = "@daily"\ntask = "cleanup"\nenabled_when = "open"\n',
        "[jobs.new]: unknown condition 'open'",
    ),
    "comes back": (
        '[jobs.new]\nschedule = "@daily"\ntask = "cleanup"\ndelete_after_run = true\n',
        "[jobs.new]: job 'new' would come back, because it is declared",
    ),
    "a slip": ('[job.new]\nschedule = "@daily"\ntask = "cleanup"\n', "did you mean 'jobs'?"),
    "no table": ("jobs = 5\n", "write each job as a table: [jobs.digest]"),
    "no tables": ("[jobs]\nnew = 5\n", "write each job as a table: [jobs.digest]"),
    "a bad lane": ("[lanes.main]\nlimit = 0\n" + SWEEP, "Lane('main').limit is 0"),
    "one of two": (SWEEP + '[jobs.new]\nschedule = "never"\ntask = "cleanup"\n', "[jobs.new]: 'never' is no schedule"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_file_changes_nothing_and_is_reported_once(
    text: str,
    said: str,
    app: Scheduler,
    store: Store,
    file: Path,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write(file, "[lanes.main]\nlimit = 7\n" + DIGEST)
    async with app.running():
        before = await jobs(store), await store.lanes()
        with caplog.at_level(logging.WARNING):
            scribble(file, text)
            await clock.advance(SETTLED)
            await clock.advance(AGAIN + SETTLED)
        after = await jobs(store), await store.lanes()
        problem = app.status().file_error

        assert after == before
        assert problem is not None
        assert said in problem
        assert caplog.text.count("everything stays as it was") == 1
        write(file, "[lanes.main]\nlimit = 7\n" + DIGEST)
        await clock.advance(SETTLED)
        assert app.status().file_error is None
        assert await jobs(store) == before[0]


ODD = ("''", "'x'", "-1", "0", "1e400", "nan", "true", "[]", "[[1]]", "{}", "{ a = 1 }", "2026-12-01", "09:00:00")
FIELDS = (
    *("schedule", "task", "args", "tz", "lane", "user", "session", "priority", "owner", "description", "enabled"),
    *("misfire", "max_staleness", "overlap", "delete_after_run", "run_on_start", "timeout", "retry", "breaker"),
    *("backoff", "backoff_cap", "enabled_when", "source", "origin", "declared", "name", "schedule.kind"),
    *("schedule.period", "retry.attempts", "retry.steps", "retry.factor", "breaker.open_for", "breaker.per"),
)


@pytest.mark.parametrize("field", FIELDS)
def test_no_value_in_any_field_does_worse_than_to_be_refused(field: str, tmp_path: Path) -> None:
    def make(*words: Any) -> JobSpec:
        return spec_of(Registry(), *words, source=Source.FILE, check_task=False)

    for odd in ODD:
        fields = {"schedule": "'@daily'", "task": "'cleanup'"}
        fields.pop(field.partition(".")[0], None)
        lines = [f"{name} = {value}" for name, value in {**fields, field: odd}.items()]
        found = tomllib.loads("\n".join(("[jobs.new]", *lines)))

        with contextlib.suppress(BadSetting):
            job_tables.specs(found, tmp_path / "laneway.toml", make)


async def test_a_file_that_nobody_may_read_changes_nothing(
    app: Scheduler, store: Store, file: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, DIGEST)
    async with app.running():

        def refused(*_: object, **__: object) -> str:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "read_text", refused)
        write(file, SWEEP)
        await clock.advance(SETTLED)

        assert set(await jobs(store)) == {"digest"}
        assert "cannot be read" in (app.status().file_error or "")


async def test_a_missing_file_removes_nothing_and_is_reported_if_jobs_of_it_exist(
    app: Scheduler, store: Store, file: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    write(file, DIGEST)
    with caplog.at_level(logging.WARNING):
        async with app.running():
            remove(file)
            await clock.advance(SETTLED + AGAIN)

            assert set(await jobs(store)) == {"digest"}
            assert "is gone, and jobs of it are there (digest)" in (app.status().file_error or "")
    assert caplog.text.count("is gone") == 1


async def test_no_file_and_no_jobs_of_one_is_nothing_to_speak_of(
    app: Scheduler, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with app.running():
            await clock.advance(SETTLED)

            assert app.status().file_error is None
    assert caplog.text == ""


async def test_a_file_that_is_being_written_is_not_read(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST + SWEEP)
    async with app.running():
        # Half of it is good TOML that says less: read now, it would remove a job.
        for written in (10, len(SWEEP), len(SWEEP) + 30):
            scribble(file, (SWEEP + DIGEST)[:written])
            await clock.advance(EVERY)
            assert set(await jobs(store)) == {"digest", "sweep"}
        scribble(file, SWEEP + DIGEST)
        await clock.advance(SETTLED)

        assert set(await jobs(store)) == {"digest", "sweep"}
        assert app.status().file_error is None


async def test_an_edit_that_keeps_size_and_time_but_not_the_file_is_seen(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST)
    same = os.stat(file)  # noqa: PTH116  # Path.stat is reported as blocking here
    async with app.running():
        write(file, DIGEST.replace("0 9", "0 7"))
        os.utime(file, ns=(same.st_atime_ns, same.st_mtime_ns))
        await clock.advance(SETTLED)

        assert (await jobs(store))["digest"].spec.rule.describe() == "at 07:00"


@pytest.mark.checklist("W2-7")
async def test_a_job_that_its_breaker_has_halted_stays_so_though_the_file_says_enabled(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    text = DIGEST + "enabled = true\nbreaker = { failures = 1, disable = true }\n"
    write(file, text)
    async with app.running():
        job = (await jobs(store))["digest"]
        halted = ended(job, "a" * 32, RunState.FAILED, "it broke", clock.now())
        assert halted is not None
        assert halted.state.halted is Halt.BREAKER
        await store.change_job(EditJob(msgspec.structs.replace(halted, version=job.version)))

        await clock.advance(AGAIN + SETTLED)
        write(file, text + 'description = "edited"\n')
        await clock.advance(SETTLED)
        edited = (await jobs(store))["digest"]
    async with app.running():
        restarted = (await jobs(store))["digest"]

    assert (edited.spec.description, edited.state.halted, edited.is_on) == ("edited", Halt.BREAKER, False)
    assert not restarted.is_on


async def test_a_job_that_an_operator_disabled_stays_so(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, DIGEST + "enabled = true\n")
    async with app.running():
        job = (await jobs(store))["digest"]
        await store.change_job(EditJob(switched(job, clock.now(), "UTC", on=False)))

        write(file, DIGEST.replace("0 9", "0 8") + "enabled = true\n")
        await clock.advance(SETTLED)

        after = (await jobs(store))["digest"]
        assert (after.spec.rule.describe(), after.is_on) == ("at 08:00", False)


async def test_a_name_that_code_declares_is_reserved(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    app.jobs.declare("sweep", "daily 03:00", "cleanup")
    write(file, DIGEST + SWEEP)

    async with app.running():
        found = await jobs(store)
        assert (set(found), found["sweep"].spec.source) == ({"sweep"}, Source.CODE)
        assert "[jobs.sweep]: the name 'sweep' is reserved: a job of that name is declared in code" in (
            app.status().file_error or ""
        )


async def test_a_name_that_a_call_has_taken_is_refused_and_nothing_of_the_file_applies(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    spec = spec_of(app.tasks.registry, "sweep", "daily 03:00", "cleanup", {}, {})
    await store.change_job(AddJob(created("a" * 32, spec, clock.now(), "UTC")))
    write(file, DIGEST + SWEEP)

    async with app.running():
        assert set(await jobs(store)) == {"sweep"}
        assert "[jobs.sweep]: there is a job of that name, made by a call" in (app.status().file_error or "")
        await store.change_job(RemoveJob("a" * 32))
        await clock.advance(AGAIN + SETTLED)  # nobody touched the file; what was in the way is gone
        assert set(await jobs(store)) == {"digest", "sweep"}


async def test_several_processes_with_one_file_make_each_job_once(
    file: Path, store: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    write(file, DIGEST + SWEEP)
    with caplog.at_level(logging.WARNING):
        one, two, three = (scheduler(store, clock) for _ in range(3))
        async with one.running(), two.running(), three.running():
            first = await jobs(store)
            write(file, DIGEST.replace("0 9", "0 8"))
            await clock.advance(SETTLED)
            second = await jobs(store)

    assert len(await store.jobs(JobFilter())) == 1
    assert (set(first), set(second)) == ({"digest", "sweep"}, {"digest"})
    assert second["digest"].version == first["digest"].version + 1
    assert caplog.text == ""


async def test_a_task_that_only_another_worker_knows_is_taken(file: Path, store: Store, clock: FakeClock) -> None:
    async with Scheduler(store=store, clock=clock) as bare, scheduler(store, clock) as full:
        async with full.running():
            write(file, DIGEST)
            async with bare.running():
                assert bare.status().file_error is None
        assert set(await jobs(store)) == {"digest"}


async def test_two_files_leave_each_other_s_jobs_alone(
    store: Store, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("a", DIGEST), ("b", SWEEP), ("c", DIGEST)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "laneway.toml").write_text(text)

    for name in "ab":
        monkeypatch.chdir(tmp_path / name)
        async with scheduler(store, clock) as app, app.running():
            await clock.advance(SETTLED)
            assert app.status().file_error is None
    monkeypatch.chdir(tmp_path / "c")
    async with scheduler(store, clock) as app, app.running():
        problem = app.status().file_error or ""

    assert set(await jobs(store)) == {"digest", "sweep"}
    assert f"the job of that name is declared in {tmp_path / 'a' / 'laneway.toml'}" in problem


async def test_a_file_with_a_name_of_its_own_may_move(
    store: Store, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"1": DIGEST + SWEEP, "2": 'origin = "shop"\n' + DIGEST}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "laneway.toml").write_text(text)
    monkeypatch.chdir(tmp_path / "1")
    async with scheduler(store, clock) as app, app.running():
        before = await jobs(store)
        write(tmp_path / "1" / "laneway.toml", 'origin = "shop"\n' + texts["1"])  # it takes its jobs along
        await clock.advance(SETTLED)
        assert {job.spec.origin for job in (await jobs(store)).values()} == {"shop"}
    monkeypatch.chdir(tmp_path / "2")
    async with scheduler(store, clock) as app, app.running():
        await clock.advance(SETTLED)
        after = await jobs(store)

    assert set(after) == {"digest"}
    assert after["digest"].id == before["digest"].id


async def test_a_job_that_fires_while_its_file_gets_a_name_is_taken_along(
    store: Store, clock: FakeClock, file: Path
) -> None:
    watched = WatchedStore(store)
    write(file, SWEEP)
    async with scheduler(watched, clock) as app, app.running():
        before = (await jobs(store))["sweep"]
        come = watched.hold_back("change_job")
        write(file, 'origin = "shop"\n' + SWEEP)
        await clock.advance(SETTLED)
        await come.wait()

        await store.change_job(EditJob(before))  # as if it had fired: it has another version now
        watched.let_go("change_job")
        await clock.advance(SETTLED)

        assert (await jobs(store))["sweep"].spec.origin == "shop"
        assert app.status().file_error is None


async def test_a_one_shot_whose_time_is_over_keeps_nothing_else_from_its_place(
    app: Scheduler, store: Store, file: Path, clock: FakeClock
) -> None:
    write(file, '[jobs.launch]\nschedule = "at 2025-12-01T09:00"\ntask = "cleanup"\n' + DIGEST)

    async with app.running():
        assert set(await jobs(store)) == {"digest"}
        assert app.status().file_error is None


async def test_a_job_cannot_be_moved_into_the_past(app: Scheduler, store: Store, file: Path, clock: FakeClock) -> None:
    write(file, DIGEST)
    async with app.running():
        before = await jobs(store)
        write(file, SWEEP + DIGEST.replace("0 9 * * *", "at 2025-12-01T09:00"))
        await clock.advance(SETTLED)

        assert await jobs(store) == before
        assert "[jobs.digest]: it would never fire again" in (app.status().file_error or "")


async def test_lanes_of_the_file_are_synced_when_it_changes(file: Path, store: Store, clock: FakeClock) -> None:
    async def limits() -> dict[str, int]:
        return {state.lane.name: state.lane.limit for state in await store.lanes()}

    write(file, "[lanes.main]\nlimit = 7\n")
    async with scheduler(store, clock, lanes=[Lane("intake", limit=3)]) as app, app.running():
        first = await limits()
        write(file, "[lanes.main]\nlimit = 8\n[lanes.intake]\nlimit = 5\n")
        await clock.advance(SETTLED)
        second = await limits()
        await app.lanes.set(Lane("intake", limit=9))
        write(file, "[lanes.background]\nlimit = 2\n")
        await clock.advance(SETTLED)
        third = await limits()

    assert (first["main"], first["intake"]) == (7, 3)
    assert (second["main"], second["intake"]) == (8, 5)
    assert (third["main"], third["intake"], third["background"]) == (30, 9, 2)  # as it was; as set; as the file says


async def test_a_worker_that_declares_no_lanes_heeds_no_file(file: Path, store: Store, clock: FakeClock) -> None:
    write(file, DIGEST)

    async with scheduler(store, clock, lanes=None) as app, app.running():
        await clock.advance(SETTLED)

    assert await jobs(store) == {}
