"""Jobs on SQLite: older files, the rows in the tables, crashes and cost."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from laneway.core.jobs.record import JobRecord
from laneway.core.lifecycle.outcome import Failed, Succeeded, settle
from laneway.core.lifecycle.step import Result, Step, StepReply
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import RunFilter
from laneway.core.records.states import TERMINAL, RunState
from laneway.core.schedules import Every
from laneway.ports.jobs import AddJob, JobFilter
from laneway.ports.upkeep import OldRuns
from laneway.stores.sqlite.database import TEXTS, SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.reads import jobs as job_reads
from laneway.stores.tables.rows.jobs import soonest
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.verbs import fires, jobs, steps, submissions, workers
from laneway.testing import FakeClock, Hand, new_runs
from laneway.testing.hand import error
from tests.stores.sqlite.old_layouts import as_layout
from tests.stores.sqlite.raw_file import edit, rows
from tests.stores.sqlite.test_plans import plan
from tests.stores.sqlite.tracing import counted, traced
from tests.support.invariants import check_invariants
from tests.support.jobs import HOUR, all_fires, decided, fire_due, kept_job, new_job, standing

INCARNATION = Hand(None, "hand").incarnation  # type: ignore[arg-type]  # it talks to no store


# The file


async def test_a_file_of_the_seventh_layout_takes_jobs(path: Path, clock: FakeClock) -> None:
    newest = path.with_name("newest.db")
    old = SQLiteStore(newest, clock)
    await old.submit(new_runs(2, "old"))
    await old.close()
    as_layout(7, newest, path)

    store = SQLiteStore(path, clock)
    await kept_job(store, clock.now(), run_on_start=True)
    [fired] = await fire_due(store)

    assert fired.won
    assert len(await store.runs(RunFilter(), limit=10)) == 3
    await check_invariants(store)
    await store.close()


async def test_a_job_and_its_fires_can_be_read_with_sqlite3(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    job = await kept_job(store, clock.now(), owner="ann", name="tidy up", run_on_start=True)

    await fire_due(store)

    job = await standing(store)
    [[owner, name, task, is_on, fire_at, spec, state]] = rows(
        path, "SELECT owner, name, task, is_on, fire_at, spec, state FROM job"
    )
    assert (owner, name, task, is_on, fire_at) == ("ann", "tidy up", "work", 1, job.state.fire_at)
    assert json.loads(str(spec))["name"] == "tidy up"
    assert json.loads(str(state))["last_run"] == job.state.last_run
    [[run_id, record]] = rows(path, "SELECT run_id, record FROM fire")
    assert (run_id, json.loads(str(record))["kind"]) == (job.state.last_run, "fired")


async def test_pruning_leaves_jobs_and_their_records_alone(store: SQLiteStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await kept_job(store, clock.now(), run_on_start=True)
    await fire_due(store)
    await hand.succeed(*await hand.claim())
    before = await standing(store), await all_fires(store)
    await clock.advance(60)

    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0))) == 1

    assert (await standing(store), await all_fires(store)) == before
    assert await store.check() == []


async def test_a_fire_whose_run_was_pruned_is_known_by_its_record(store: SQLiteStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await kept_job(store, clock.now(), run_on_start=True)
    due = await store.due_jobs()
    [decision] = decided(due.jobs, due.now)
    await store.fire([decision])
    await hand.succeed(*await hand.claim())
    await clock.advance(60)
    await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)))

    # As by a clock that was set back: the same nominal time is decided on again, at the version it has now.
    version = (await standing(store)).version
    [again] = await store.fire([msgspec.structs.replace(decision, version=version)])

    assert (again.won, again.receipts) == (True, (None,))
    assert await store.runs(RunFilter(), limit=10) == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE job SET fire_at = 5", "job j: it is not found when its state says"),
        ("UPDATE job SET fire_at = NULL", "job j: it is not found when its state says"),
        ("INSERT INTO fire VALUES ('gone', 1, NULL, '{}')", "job gone: there are records of its fires, but no job"),
    ],
    ids=lambda part: part,
)
async def test_what_does_not_agree_about_jobs_is_found_and_set_right(
    path: Path, store: SQLiteStore, clock: FakeClock, statement: str, said: str
) -> None:
    job = await kept_job(store, clock.now(), name="j")
    edit(path, statement)

    [found] = await store.check()
    [repaired] = await store.check(repair=True)

    assert f"{found.what}: {found.wrong}".startswith(said)
    assert (repaired, await store.check()) == (found, [])
    assert rows(path, "SELECT fire_at FROM job") == [(job.state.fire_at,)]


# Crashes


@contextmanager
def giving_up(path: Path, point: str) -> Iterator[None]:
    edit(path, f"CREATE TRIGGER crash AFTER {point} BEGIN SELECT RAISE(ABORT, 'here'); END")
    yield
    edit(path, "DROP TRIGGER crash")


async def everything(store: SQLiteStore) -> list[object]:
    found = await store.jobs(JobFilter())
    return [*found, *[await all_fires(store, job.id) for job in found], *await store.runs(RunFilter(), limit=100)]


@pytest.mark.parametrize(
    "point",
    ["INSERT ON run", "INSERT ON ready", "INSERT ON session", "UPDATE ON job", "INSERT ON fire", "UPDATE ON counter"],
)
async def test_a_fire_that_fails_half_way_leaves_nothing_and_the_next_one_everything_once(
    path: Path, store: SQLiteStore, clock: FakeClock, point: str
) -> None:
    await kept_job(store, clock.now(), run_on_start=True)
    await kept_job(store, clock.now(), id="k", run_on_start=True)
    before = await everything(store)

    with giving_up(path, point), pytest.raises(sqlite3.Error, match="here"):
        await fire_due(store)
    halfway = await everything(store)
    fired = await fire_due(store)

    assert halfway == before
    assert [one.won for one in fired] == [True, True]
    assert len(await store.runs(RunFilter(), limit=10)) == 2
    assert await fire_due(store) == []
    await check_invariants(store)


@pytest.mark.parametrize("point", ["UPDATE ON job", "INSERT ON outcome", "DELETE ON lease", "UPDATE ON counter"])
async def test_an_end_that_fails_half_way_is_not_known_to_the_job(
    path: Path, store: SQLiteStore, clock: FakeClock, point: str
) -> None:
    hand = await Hand(store).register()
    await kept_job(store, clock.now(), Every(HOUR, after="end"), run_on_start=True)
    await fire_due(store)
    [run] = await hand.claim()
    before = await everything(store)

    with giving_up(path, point), pytest.raises(sqlite3.Error, match="here"):
        await hand.step(results=[hand.result(run, Succeeded("1"))])
    halfway = await everything(store)
    reply = await hand.repeat_last()

    assert halfway == before
    state = (await standing(store)).state
    assert (state.last_state, state.next_at) == (RunState.SUCCEEDED, clock.now() + HOUR * 1_000_000)
    assert reply.fires_in == HOUR * 1_000_000
    assert (await hand.repeat_last()).fires_in == HOUR * 1_000_000


# Cost


def many_jobs(database: SQLiteDatabase, count: int, now: int) -> list[JobRecord]:
    """Keep so many jobs that are due at once."""
    database.raw.execute("BEGIN")
    made = [new_job(now, id=f"job-{n:06d}", run_on_start=True) for n in range(count)]
    for job in made:
        jobs.change(database, AfterCommit(), AddJob(job), now)
    database.raw.execute("COMMIT")
    return made


def step(database: SQLiteDatabase, number: int, results: list[Result] | None = None, *, now: int) -> StepReply:
    return steps.take_step(database, AfterCommit(), Step("hand", number, results or [], room=1000), now)


def test_a_store_without_jobs_asks_and_writes_nothing_about_them(
    db: sqlite3.Connection, database: SQLiteDatabase
) -> None:
    workers.register(database, INCARNATION, None, 1)

    with traced(db) as texts:
        submissions.submit(database, AfterCommit(), new_runs(20, "r"), 1)
        reply = step(database, 1, now=1)
        results = [Result(run.number, run.fence, settle(run, Succeeded("1"), TaskPolicy())) for run in reply.claimed]
        step(database, 2, results, now=1)

    assert not [text for text in texts if re.search(r"\b(job|fire|jobs_at)\b", text)]


def test_a_thousand_jobs_fire_in_as_few_statements_of_reading_as_ten(
    db: sqlite3.Connection, database: SQLiteDatabase
) -> None:
    reads = {}
    for count in (10, 1000):
        now = count * HOUR * 1_000_000
        made = many_jobs(database, count, now)
        due = decided(made, now)
        with traced(db) as texts:
            db.execute("BEGIN")
            assert all(fired.won for fired in fires.fire(database, AfterCommit(), due, now))
            db.execute("COMMIT")
        reads[count] = [text for text in texts if text.startswith("SELECT")]
        db.execute("DELETE FROM job")

    assert len(reads[1000]) == len(reads[10])


def test_a_step_hears_all_ends_of_fires_together(db: sqlite3.Connection, database: SQLiteDatabase) -> None:
    workers.register(database, INCARNATION, None, 1)
    fires.fire(database, AfterCommit(), decided(many_jobs(database, 30, 1), 1), 1)
    claimed = step(database, 1, now=1).claimed
    policy = TaskPolicy()
    results = [
        Result(run.number, run.fence, settle(run, Failed(error()) if n % 2 else Succeeded("1"), policy))
        for n, run in enumerate(claimed)
    ]

    with traced(db) as texts:
        step(database, 2, results, now=1)

    assert len([text for text in texts if re.search(r"^SELECT.*(FROM|JOIN) (job|fire)\b", text, re.DOTALL)]) <= 2
    assert (
        len([text for text in texts if text.startswith("UPDATE job")]) == len(claimed) // 2
    )  # those that failed try again
    states = [job.state.last_state for job in job_reads.listed(database, JobFilter(), 1000, ("", ""))]
    assert (states.count(RunState.SUCCEEDED), states.count(None)) == (15, 15)


def put_off(db: sqlite3.Connection, count: int) -> None:
    """Keep so many jobs that are due later, each like the first."""
    db.execute(
        "WITH RECURSIVE n (value) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT value + 1 FROM n WHERE value < ?1)"
        " INSERT INTO job SELECT 'later-' || value, NULL, 'later-' || value, task, source, 1, 1000 + value, 1, '', 1,"
        " 1, spec, state FROM n CROSS JOIN job WHERE id = 'job-000000'",
        (count,),
    )


def test_finding_what_is_due_costs_the_same_among_a_hundred_thousand_jobs(
    db: sqlite3.Connection, database: SQLiteDatabase
) -> None:
    many_jobs(database, 10, 1)
    spent = []
    for more in (0, 100_000):
        put_off(db, more)
        with counted(db) as count:
            due = job_reads.due(database, 500, (0, ""), 1)
            soonest(database)
        spent.append(count[0])
        assert [job.id for job in due.jobs] == [f"job-{n:06d}" for n in range(10)]

    assert spent[1] <= spent[0] + 10  # it looks at one that is not due


def test_what_is_due_is_read_in_order_from_its_index(db: sqlite3.Connection) -> None:
    assert plan(db, TEXTS["jobs.due"]) == ["SEARCH job USING INDEX job_due ((fire_at,id)>(?,?) AND fire_at<?)"]
    assert plan(db, TEXTS["jobs.soonest"]) == ["SEARCH job USING COVERING INDEX job_due (fire_at>?)"]


@pytest.mark.parametrize("name", ["listed", "owned", "fires"])
def test_jobs_and_records_are_listed_without_sorting(db: sqlite3.Connection, name: str) -> None:
    assert not [step for step in plan(db, TEXTS[f"jobs.{name}"]) if "TEMP B-TREE" in step]
