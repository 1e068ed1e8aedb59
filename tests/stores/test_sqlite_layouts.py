"""Layouts of a SQLite file: an older one is moved forward, by one process, whole or not at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from laneway.core.states import TERMINAL
from laneway.errors import StoreUnavailable
from laneway.stores.sqlite import SQLiteStore, connection
from laneway.testing import FakeClock, Hand, all_runs, check_drains, check_invariants, new_run, new_runs
from tests.stores.behind import edit, rows
from tests.stores.layouts import OLD, as_layout

PROCESS = Path(__file__).with_name("sqlite_process.py")


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
    assert await store.prune(dict.fromkeys(TERMINAL, 0)) == 3
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
    assert await store.count() == {"succeeded": 2, "running": 1, "pending": 3}
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


@pytest.mark.usefixtures("first_layout")
@pytest.mark.system
def test_several_processes_may_migrate_at_once(path: Path) -> None:
    before = everything(path)
    command = [sys.executable, str(PROCESS), str(path), "submit"]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    # Each says that it is ready when it has opened the file, and goes on when its input ends.
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
