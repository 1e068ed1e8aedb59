"""Layouts of a SQLite file: an older one is moved forward, by one process, whole or not at all."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from laneway.core.common.instants import instant
from laneway.core.queue.turns import LaneBook, Ledger, Seat, Turn, VirtualTime
from laneway.core.records.policy import Lane
from laneway.core.records.states import TERMINAL
from laneway.errors import StoreUnavailable
from laneway.ports.settings import LaneSetting
from laneway.ports.upkeep import OldRuns
from laneway.stores.sqlite import connection
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.state.lane_counts import lane_of
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.old_layouts import OLD, as_layout
from tests.stores.sqlite.raw_file import edit, rows
from tests.support.invariants import all_runs, check_drains, check_invariants

PROCESS = Path(__file__).with_name("other_process.py")


@pytest.fixture
async def first_layout(path: Path, clock: FakeClock) -> None:
    """A file as the first laneway made and left it: with every kind of run in it."""
    newest = path.with_name("newest.db")
    store = SQLiteStore(newest, clock)
    hand = await Hand(store).register()
    await store.submit([*new_runs(3, "done"), new_run("kept"), *new_runs(3, "held", session="chat")])
    *done, kept = await hand.claim(4)
    await hand.emit(kept, "log", {"text": "hello"})
    await hand.succeed(*done, value=42)
    await store.submit([new_run("later", delay=3600), *new_runs(5, "ann", lane="background", user="ann")])
    await hand.leave()
    await store.close()
    as_layout(1, newest, path)


def layout(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def everything(path: Path) -> dict[str, list[dict[str, object]]]:
    """Return all rows of all tables, by column."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        db.row_factory = sqlite3.Row
        return {name: [dict(row) for row in db.execute(f'SELECT * FROM "{name}" ORDER BY 1')] for name in tables}


def check_carried_over(table: str, before: list[dict[str, object]], after: list[dict[str, object]]) -> None:
    """Assert that the rows there were are there, in the columns that mean the same in both layouts."""
    for old, row in zip(before, after, strict=True):
        same = [column for column in old if (table, column) not in OLD]
        assert [row[column] for column in same] == [old[column] for column in same]


@pytest.mark.usefixtures("first_layout")
async def test_a_file_of_the_first_layout_moves_forward_and_nothing_is_lost(path: Path, clock: FakeClock) -> None:
    before = everything(path)
    assert layout(path) == 1

    store = SQLiteStore(path, clock)
    await store.open()

    assert layout(path) == connection.newest_layout() > 1
    after = everything(path)
    for name, were in before.items():
        check_carried_over(name, were, after[name])
    await check_invariants(store)
    await clock.advance(100)
    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0))) == 3
    assert [run.id for run in await all_runs(store)][:2] == ["kept", "held-00000"]
    await check_drains(store, clock)
    await store.close()


@pytest.mark.parametrize("number", [13, 14])
async def test_a_session_says_what_holds_now(path: Path, clock: FakeClock, number: int) -> None:
    """They were deleted late in these layouts, and that a run has started was not written."""
    newest = path.with_name("newest.db")
    store = SQLiteStore(newest, clock)
    hand = await Hand(store).register()
    await store.submit(new_runs(6, "run", session="chat"))
    for _ in range(2):
        await hand.succeed(*await hand.claim())
    [run] = await hand.claim()
    await store.close()
    as_layout(number, newest, path)
    edit(path, "INSERT INTO held_row SELECT 'chat', number - 1, number, 0, 0 FROM run WHERE number IN (2, 3)")
    edit(path, "UPDATE session SET passed = 2, unstarted_then = 3")

    store = hand.store = SQLiteStore(path, clock)
    await store.open()

    assert rows(path, "SELECT number FROM held ORDER BY number") == [(4,), (5,), (6,)]
    assert rows(path, "SELECT unstarted FROM session") == [(0,)]
    assert (await store.depths()).runs == {"succeeded": 2, "running": 1, "pending": 3}
    await check_invariants(store)
    await hand.succeed(run)
    await check_drains(store, clock)
    await store.close()


@pytest.mark.usefixtures("first_layout")
async def test_a_migrated_file_has_the_layout_of_a_new_one(path: Path, clock: FakeClock, tmp_path: Path) -> None:
    def schema(path: Path) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as db:
            return sorted(db.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))

    new = tmp_path / "new.db"
    for file in (path, new):
        store = SQLiteStore(file, clock)
        await store.open()
        await store.close()

    assert schema(path) == schema(new)


# As layout 14 wrote runs that were submitted together: one row for all of them, and the counts of their lane.
_BIND = """INSERT INTO sheaf (first, runs, rank, task, lane, user, priority, accepted_at, highest, ids, args)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_RESERVE = "UPDATE counter SET accepted = ?1 WHERE one = 1"
_SET_RUNS = "UPDATE lane SET active = ?, pending = ? WHERE name = ?"
_SET_PACE = "INSERT OR REPLACE INTO pace (lane, priority, v, ready) VALUES (?, ?, ?, ?)"
_SET_TURN = "INSERT OR REPLACE INTO turn (lane, user, priority, last, waiting) VALUES (?, ?, ?, ?, ?)"


def bind(path: Path, first: int, prefix: str, args: list[str], user: str | None = None) -> list[str]:
    """Write runs as the writer of layout 14 did, from acceptance number `first` on; return their ids."""
    ids = [f"{prefix}-{nth:03d}" for nth in range(len(args))]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        rule = db.execute("SELECT \"limit\", active, pending FROM lane WHERE name = 'main'").fetchone()
        paces = db.execute("SELECT priority, v, ready FROM pace WHERE lane = 'main'").fetchall()
        last = db.execute("SELECT last, waiting FROM turn WHERE lane = 'main' AND user = ?", (user or "",)).fetchone()
        limit, active, pending = rule
        turns: Ledger[tuple[str | None, int], Turn] = Ledger(Turn)
        turn = turns[user, 0] = Turn(*last) if last else Turn()
        book = LaneBook(
            lane_of("main", limit), {priority: VirtualTime(*rest) for priority, *rest in paces}, turns, Ledger(Seat)
        )
        book.active, book.pending = active, pending
        rank = book.enter_fresh(user, 0, len(ids))
        if db.execute("SELECT NOT EXISTS (SELECT 1 FROM sheaf)").fetchone()[0]:
            db.execute(_RESERVE, (first + 10_000 - 1,))
        lines = "\n".join(ids), "\n".join(args)
        db.execute(_BIND, (first, len(ids), rank, "work", "main", user, 0, 7, ids[-1], *lines))
        db.execute(_SET_RUNS, (active, pending + len(ids), "main"))
        db.execute(_SET_PACE, ("main", 0, book.paces[0].v, book.paces[0].ready))
        db.execute(_SET_TURN, ("main", user or "", 0, turn.last, turn.waiting))
        db.execute("COMMIT")
    return ids


async def test_runs_that_layout_14_kept_in_one_row_become_rows_and_none_is_lost(path: Path, clock: FakeClock) -> None:
    newest = path.with_name("newest.db")
    store = SQLiteStore(newest, clock)
    await store.submit([*new_runs(3, "before"), new_run("later", delay=3600)])
    await store.close()
    as_layout(14, newest, path)
    args = [f'{{"number":{nth},"text":"café {"x" * (nth % 7)}\\n\\""}}' for nth in range(256)]
    given = bind(path, 5, "many", args)
    given += bind(path, 261, "ann", ["1", "2"], user="ann")

    store = SQLiteStore(path, clock)
    await store.open()

    assert layout(path) == connection.newest_layout()
    assert "sheaf" not in everything(path)
    assert (await store.depths()).runs == {"pending": 4 + 258}
    runs = {run.id: run for run in await all_runs(store)}
    assert [runs[name].number for name in given] == list(range(5, 5 + 258))
    assert [runs[name].args for name in given] == [*map(json.loads, args), 1, 2]
    assert {runs[name].user for name in given[:256]} == {None}
    assert {runs[name].user for name in given[256:]} == {"ann"}
    assert {(runs[name].task, runs[name].lane) for name in given} == {("work", "main")}
    assert {runs[name].accepted_at for name in given} == {runs[name].due_at for name in given} == {instant(7)}
    await check_invariants(store, logs=False)
    # The next one gets the next number, and they are claimed in the order in which they came.
    await store.submit([new_run("next"), *new_runs(1, "many-00")])
    assert (await store.get("next")).number == 263
    hand = await Hand(store).register()
    await store.set(LaneSetting(Lane("main", limit=1000)))
    claimed = [run.id for run in await hand.claim(1000)]
    assert [name for name in claimed if name.startswith("many-0") and len(name) == 8] == given[:100]
    await check_drains(store, clock)
    await store.close()


async def test_a_file_of_layout_14_in_which_nothing_was_packed_keeps_its_numbers(path: Path, clock: FakeClock) -> None:
    newest = path.with_name("newest.db")
    store = SQLiteStore(newest, clock)
    await store.submit(new_runs(3, "r"))
    await store.close()
    as_layout(14, newest, path)
    before = everything(path)

    store = SQLiteStore(path, clock)
    await store.open()

    after = everything(path)
    assert [after[name] for name in ("run", "ready", "counter")] == [
        before[name] for name in ("run", "ready", "counter")
    ]
    await store.close()


@pytest.mark.usefixtures("first_layout")
@pytest.mark.system
def test_several_processes_may_migrate_at_once(path: Path) -> None:
    before = everything(path)
    command = [sys.executable, str(PROCESS), str(path), "submit"]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    # Each prints "ready" when it has opened the file, and continues when its input ends.
    said = [process.communicate(timeout=50)[0] for process in processes]

    assert said == ["ready\n"] * 4
    assert [process.returncode for process in processes] == [0] * 4
    assert layout(path) == connection.newest_layout()
    after = everything(path)
    check_carried_over("run", before["run"], after["run"][: len(before["run"])])
    assert len(after["run"]) == len(before["run"]) + 4 * 200
    for table in ("event", "outcome", "held"):
        check_carried_over(table, before[table], after[table])


@pytest.mark.usefixtures("first_layout")
async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = connection._migrations()
    broken = {**known, max(known): known[max(known)] + "INSERT INTO nowhere VALUES (1);"}
    before = everything(path)
    with monkeypatch.context() as patched:
        patched.setattr(connection, "_migrations", lambda: broken)
        with pytest.raises(StoreUnavailable, match="nowhere"):
            await SQLiteStore(path, clock).open()

    assert (layout(path), everything(path)) == (1, before)
    store = SQLiteStore(path, clock)
    await store.open()
    await check_invariants(store)
    await store.close()


@pytest.mark.usefixtures("first_layout")
async def test_an_examination_changes_nothing_not_even_the_layout(path: Path, clock: FakeClock) -> None:
    examination = await SQLiteStore(path, clock).examine()

    assert (examination.layout, examination.newest_layout) == (1, connection.newest_layout())
    assert (examination.damage, examination.findings) == ([], None)
    assert layout(path) == 1
