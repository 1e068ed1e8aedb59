"""Settings of operators on SQLite: older files, the rows in the tables, and cost."""

import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from laneway.core.lifecycle.step import Step
from laneway.core.records.policy import DEFAULT_LANES, Lane, Rule
from laneway.ports.control import Cancel
from laneway.ports.gates import Held
from laneway.ports.lanes import LaneState
from laneway.ports.settings import Hold, SessionSetting, UserCap
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.rows.settings import ruled_names, ruled_sessions
from laneway.stores.tables.rows.submission_counts import count
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.verbs import settings, steps, submissions, workers
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.tracing import is_header
from tests.support.invariants import check_drains

FIRST = "0001_first.sql"
RULES = ("cap", "paused", "disabled", "session_rule", "lane_count")
INCARNATION = Hand(None, "hand").incarnation  # type: ignore[arg-type]  # it talks to no store


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


async def lane(store: SQLiteStore, name: str = "main") -> LaneState:
    return next(state for state in await store.lanes() if state.lane.name == name)


async def test_an_older_file_has_its_lanes_as_declared_and_their_pending_runs_counted(
    path: Path, clock: FakeClock
) -> None:
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(files("laneway.stores.sqlite").joinpath("schema", FIRST).read_text(encoding="utf-8"))
        old.execute("PRAGMA application_id = 0x4C4E5759")
        old.execute("PRAGMA user_version = 1")
        old.execute("INSERT INTO lane VALUES ('main', 7, 2, 0), ('idle', 3, NULL, 0)")
        run = "INSERT INTO run VALUES (?, ?, 'work', 'main', NULL, NULL, 0, NULL, 1, ?, 1, '{}')"
        old.executemany(run, [(1, "ready", 1), (2, "due", 9)])
        old.execute("INSERT INTO ready VALUES ('main', 1, 1, 0)")
        old.execute("INSERT INTO pace VALUES ('main', 0, 0, 1)")
        old.execute("INSERT INTO turn VALUES ('main', '', 0, 1, 1)")
        old.execute("INSERT INTO due VALUES (9, 2, 0)")

    store = SQLiteStore(path, clock)

    assert await store.lanes() == [
        LaneState(Lane("idle", limit=3), 0, 0, declared=Lane("idle", limit=3)),
        LaneState(Lane("main", limit=7, per_user=2), 0, 1, 2, declared=Lane("main", limit=7, per_user=2)),
    ]
    assert await store.check() == []
    await check_drains(store, clock)
    await store.close()


def test_where_nothing_is_set_nobody_asks_what_is_and_a_lanes_counts_are_written_at_once(
    db: sqlite3.Connection,
    database: SQLiteDatabase,
) -> None:
    workers.register(database, INCARNATION, None, 1)
    asked: list[str] = []
    db.set_trace_callback(asked.append)

    submissions.submit(database, AfterCommit(), new_runs(5, "r", user="ann"), 1)
    reply = steps.take_step(database, AfterCommit(), Step("hand", 1, room=3, park=True), 1)

    assert len(reply.claimed) == 3
    glances = [text for text in asked if is_header(text)]
    assert len(glances) == 4, "two statements for each of the two transactions"
    others = " ".join(text for text in asked if text not in glances)
    # One statement selects the worker to wake; it leaves out what is paused.
    assert not [table for table in RULES if f"FROM {table}" in others.replace("(SELECT 1 FROM paused", "")]
    assert [text for text in asked if text.startswith("UPDATE lane")] == [
        "UPDATE lane SET active = 0, pending = 5 WHERE name = 'main'",
        "UPDATE lane SET active = 3, pending = 2 WHERE name = 'main'",
    ]


def test_declaring_the_same_again_writes_nothing(db: sqlite3.Connection, database: SQLiteDatabase) -> None:
    lanes = [*DEFAULT_LANES, Lane("extra", limit=1, per_user=1, worker_limit=1, max_pending=9, when_full="drop_old")]
    settings.declare_lanes(database, AfterCommit(), lanes, 1)
    before = db.total_changes

    settings.declare_lanes(database, AfterCommit(), lanes, 1)

    assert db.total_changes == before


async def test_what_was_counted_adds_up_by_lane(store: SQLiteStore, database: SQLiteDatabase) -> None:
    count(database, "main", "merged")
    count(database, "main", "merged", 2)
    count(database, "main", "dropped unread", 3)

    assert (await lane(store)).counts == {"dropped unread": 3, "merged": 3}
    assert (await lane(store, "team")).counts == {}


async def test_a_wrong_count_of_pending_runs_is_found_and_set_right(store: SQLiteStore, path: Path) -> None:
    await store.submit(new_runs(3, "r"))
    change(path, "UPDATE lane SET pending = 7 WHERE name = 'main'")

    findings = await store.check(repair=True)

    assert [(finding.what, finding.wrong) for finding in findings] == [("lane main", "pending is 7, counted are 3")]
    assert (await lane(store)).pending == 3
    assert await store.check() == []


async def test_runs_parked_at_a_cap_of_the_users_own_are_not_found_to_be_stranded(store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await store.set(UserCap("ann", "main", 1))
    await store.set(Hold(Held.USER, "bob", held=True))
    await store.submit([*new_runs(3, "ann", user="ann"), *new_runs(3, "bob", user="bob")])
    await hand.claim(6)

    assert await store.check() == []


async def test_what_could_go_on_by_a_users_own_cap_is_found_and_goes_on(store: SQLiteStore, path: Path) -> None:
    hand = await Hand(store).register()
    await store.set(UserCap("ann", "main", 1))
    await store.submit(new_runs(3, "ann", user="ann"))
    await hand.claim(3)
    change(path, "UPDATE cap SET cap = 2")

    [finding] = await store.check(repair=True)

    assert finding.what == "ann in lane main"
    assert len(await hand.claim(3)) == 1


async def test_sessions_of_which_something_is_set_are_named_by_prefix_and_page(
    store: SQLiteStore, database: SQLiteDatabase
) -> None:
    for name in ("b1", "a1", "a2", "c"):
        await store.set(SessionSetting(name, Rule(cap=3)))
    await store.set(Hold(Held.SESSION, "a3", held=True))
    await store.set(Hold(Held.SESSION, "a1", held=True))
    await store.set(SessionSetting("c", Rule()))

    assert ruled_names(database, "", "", 10) == ["a1", "a2", "a3", "b1"]
    assert ruled_names(database, "a", "a1", 1) == ["a2"]
    assert ruled_sessions(database, ["a1", "a3", "c"]) == {"a1": (Rule(cap=3), True), "a3": (Rule(), True)}


@pytest.mark.parametrize("several", [1, 2])
async def test_a_run_kept_still_is_found_when_it_is_cancelled(
    store: SQLiteStore, clock: FakeClock, several: int
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run(f"r{n}", session="chat", user="ann", max_concurrent=several) for n in range(3)])
    await hand.release(*await hand.claim(1))
    await store.set(Hold(Held.SESSION, "chat", held=True))
    assert await hand.claim(3) == []

    await store.change_run("c", "r0", Cancel())

    assert await store.check() == []
    await store.set(Hold(Held.SESSION, "chat", held=False))
    assert len(await hand.claim(3)) == several
    await check_drains(store, clock)
