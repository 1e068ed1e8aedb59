"""A uniform batch is written as its runs one by one would be, and other batches are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from laneway.core.lifecycle.step import Step
from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun, Receipt
from laneway.ports.settings import LaneSetting, TaskDisabled
from laneway.stores.sqlite.connection import StoreFile, connect
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.verbs import settings, steps, submissions, workers
from laneway.stores.tables.verbs.submissions import submit_uniform
from laneway.testing import FakeClock, Hand, new_run, new_runs

INCARNATION = Hand(None, "hand").incarnation  # type: ignore[arg-type]  # it talks to no store
Change = Callable[[SQLiteDatabase], object]


def tables(database: SQLiteDatabase) -> dict[str, list[Any]]:
    db = database.raw
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names}


@pytest.fixture
def other(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteDatabase]:
    with closing(connect(StoreFile(tmp_path / "other.db", 1.0))) as db:
        yield SQLiteDatabase(db, clock.now)


@pytest.mark.parametrize("seed", range(5))
def test_a_uniform_batch_leaves_what_its_runs_would_one_by_one(
    database: SQLiteDatabase, other: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, straight = random.Random(seed), []

    def both(change: Change) -> None:
        def counted(*args: Any) -> list[Receipt] | None:
            receipts = submit_uniform(*args)
            straight.append(receipts is not None)
            return receipts

        monkeypatch.setattr(submissions, "submit_uniform", counted)
        answer = change(database)
        monkeypatch.setattr(submissions, "submit_uniform", lambda *_: None)
        assert change(other) == answer
        assert tables(database) == tables(other)

    both(lambda db: workers.register(db, INCARNATION, None, 1))
    both(lambda db: settings.put(db, AfterCommit(), LaneSetting(Lane("main", limit=9, per_user=2)), 1))
    for nth in range(1, 80):
        if chance.random() < 0.4:
            step = Step("hand", nth, room=chance.randrange(5), park=True)
            both(lambda db, step=step, nth=nth: steps.take_step(db, AfterCommit(), step, nth))  # type: ignore[misc]
        else:
            fields = {
                "user": chance.choice([None, None, "ann"]),
                "priority": chance.choice([0, 0, 0, 5]),
                "lane": chance.choice(["main", "main", "cron", "unknown"]),
            }
            batch = new_runs(chance.choice([1, 2, 7, 40]), f"r{nth}", **fields)  # type: ignore[arg-type]
            both(lambda db, batch=batch, nth=nth: submissions.submit(db, AfterCommit(), batch, nth))  # type: ignore[misc]

    assert {True, False} == set(straight)


@pytest.mark.parametrize(
    "batch",
    [
        [new_run("a", user="ann")],
        [new_run("a", priority=1)],
        [new_run("a", session="s")],
        [new_run("a", key="k")],
        [new_run("a", delay=1)],
        [new_run("a", due_at=5)],
        [new_run("a"), new_run("b", user="ann")],
        [new_run("a"), new_run("b", priority=1)],
        [new_run("a", lane="unknown")],
        [new_run("a"), new_run("a")],
        [new_run("a"), new_run("known")],
        [*new_runs(300, "r"), new_run("known")],
    ],
    ids=[
        "user",
        "priority",
        "session",
        "key",
        "delay",
        "instant",
        "users",
        "priorities",
        "lane",
        "twice",
        "repeat",
        "late repeat",
    ],
)
def test_what_is_not_uniform_is_left_and_nothing_is_written(database: SQLiteDatabase, batch: list[NewRun]) -> None:
    submissions.submit(database, AfterCommit(), [new_run("known")], 1)
    before = tables(database)

    assert submit_uniform(database, AfterCommit(), batch, 2) is None
    assert tables(database) == before


@pytest.mark.parametrize(
    "obstacle",
    [
        lambda db: settings.put(db, AfterCommit(), TaskDisabled("work", disabled=True), 1),
        lambda db: settings.put(db, AfterCommit(), LaneSetting(Lane("main", limit=9, max_pending=5)), 1),
        lambda db: submissions.submit(db, AfterCommit(), [new_run("due", due_at=2)], 1),
    ],
    ids=["disabled", "bound", "due"],
)
def test_what_stands_in_the_way_has_the_runs_accepted_one_by_one(database: SQLiteDatabase, obstacle: Change) -> None:
    assert submit_uniform(database, AfterCommit(), [new_run("before")], 1) is not None
    obstacle(database)
    before = tables(database)

    assert submit_uniform(database, AfterCommit(), [new_run("a")], 2) is None
    assert tables(database) == before
