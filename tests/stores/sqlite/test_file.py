"""The file of a SQLite store: files that are refused and left unchanged, what a reopened one holds, and its log."""

# ruff: noqa: ASYNC240 - a test's loop has nothing else to do while it looks at a file

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed
from laneway.errors import NotAStore, StoreTooNew, StoreUnavailable
from laneway.stores.sqlite import checkpoints, writer
from laneway.stores.sqlite.connection import connect_to_read
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.sql.database import Database
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.support.invariants import check_invariants


@pytest.fixture
def patience() -> float:
    return 0.2


def ids(claimed: list[Claimed]) -> list[str]:
    return [run.id for run in claimed]


async def test_a_newer_layout_is_refused_and_both_versions_are_named(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        [known] = db.execute("PRAGMA user_version").fetchone()
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()

    with pytest.raises(StoreTooNew, match=rf"layout 99.*up to {known}"):
        await SQLiteStore(path, clock).open()

    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, clock: FakeClock) -> None:
    path.write_text("dear diary, " * 1000, encoding="utf-8")
    before = path.read_bytes()

    with pytest.raises(NotAStore, match=r"not a SQLite database; give another path") as caught:
        await SQLiteStore(path, clock).open()

    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "theirs", ["CREATE TABLE note (text)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"], ids=str
)
async def test_another_programs_database_is_refused_and_left_alone(path: Path, clock: FakeClock, theirs: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(theirs)
        db.execute("VACUUM")
    before = path.read_bytes()

    with pytest.raises(NotAStore, match="another program"):
        await SQLiteStore(path, clock).open()

    assert path.read_bytes() == before
    assert not Path(f"{path}-wal").exists()


async def test_a_path_that_cannot_be_is_refused_with_advice(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailable, match=r"is a folder; give the path of a file in it"):
        await SQLiteStore(tmp_path, clock).open()
    with pytest.raises(StoreUnavailable, match=r"there is no folder .*missing; create it first"):
        await SQLiteStore(tmp_path / "missing" / "laneway.db", clock).open()
    with pytest.raises(StoreUnavailable, match=r"there is no folder"):
        await SQLiteStore(tmp_path / "file" / "laneway.db", clock).open()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file"]


async def test_a_refused_store_opens_once_the_trouble_is_gone(tmp_path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(tmp_path / "later" / "laneway.db", clock)
    with pytest.raises(StoreUnavailable):
        await store.submit([new_run("a")])

    (tmp_path / "later").mkdir()

    await store.submit([new_run("a")])
    assert (await store.get("a")).number == 1
    await store.close()


async def test_what_was_accepted_is_there_after_closing_and_opening_again(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a", session="chat"), new_run("b", session="chat"), new_run("later", delay=60)])
    [claimed] = await hand.claim()
    await store.close()

    again = SQLiteStore(path, clock)
    await again.open()

    assert (await again.depths()).runs == {"running": 1, "pending": 2}
    hand.store = again
    await hand.succeed(claimed, value=42)
    assert (await again.get("a")).result == 42
    assert ids(await hand.claim(5)) == ["b"]
    await check_invariants(again)
    await again.close()


async def test_the_last_to_close_leaves_the_file_and_the_lock(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.submit(new_runs(100, "r"))
    await store.depths()

    await store.close()

    assert sorted(item.name for item in path.parent.iterdir()) == ["laneway.db", "laneway.db-lock"]


async def test_a_closed_store_says_so_until_it_is_opened_again(store: SQLiteStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.submit([new_run("a")])

    await store.open()

    await store.submit([new_run("a")])


async def test_an_operators_limit_survives_a_restart(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    await store.declare_lanes([Lane("main", limit=7)])
    await store.close()

    again = SQLiteStore(path, clock)

    assert {state.lane.name: state.lane.limit for state in await again.lanes()}["main"] == 7
    await again.close()


async def test_every_connection_writes_through_and_leaves_checkpoints_alone(store: SQLiteStore) -> None:
    await store.depths()
    presence = store.access.runtime
    assert presence.writer._db is not None
    assert presence.reader._db is not None
    for db in (presence.writer._db, presence.reader._db.raw):
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)


# The log


def frames(path: Path) -> int:
    """Return how many pages of the log belong to its current round."""
    data = Path(f"{path}-wal").read_bytes()
    size = 24 + int.from_bytes(data[8:12], "big")
    count = 0
    while data[32 + count * size + 8 : 32 + count * size + 16] == data[16:24]:
        count += 1
    return count


async def test_checkpoints_keep_the_log_short(path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PAGES", 50)
    monkeypatch.setattr(writer, "_LOOK_AFTER", 1)
    store.access.runtime.writer._checkpointer._limit = 50
    most = 0
    for batch in range(40):
        await store.submit(new_runs(50, f"b{batch:02d}"))
        most = max(most, frames(path))

    assert 50 <= most < 150
    assert path.stat().st_size > 40 * 50 * 100


async def test_a_long_reader_holds_the_checkpoint_up_and_not_for_good(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PAGES", 20)
    monkeypatch.setattr(writer, "_LOOK_AFTER", 1)
    store.access.runtime.writer._checkpointer._limit = 20
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM run").fetchone()
        for batch in range(20):
            await store.submit(new_runs(50, f"b{batch:02d}"))
        grown = frames(path)

    for name in "abc":
        await store.submit(new_runs(100, name))

    assert grown > 200
    assert frames(path) < 60


@contextmanager
def moving(path: Path) -> Iterator[None]:
    """Let another program checkpoint slowly: it holds the second lock of the file's index."""
    code = f"import fcntl; f = open({f'{path}-shm'!r}, 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 121)"
    command = [sys.executable, "-c", f"{code}; print(flush=True); import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.communicate()


async def test_a_log_that_another_program_is_moving_does_not_count_as_moved(path: Path, store: SQLiteStore) -> None:
    await store.submit(new_runs(10, "r"))
    desk = store.access.runtime.writer
    with desk.busy:
        assert desk._db is not None
        with moving(path):
            assert not desk._checkpointer.move_all(desk._db)
        assert desk._checkpointer.move_all(desk._db)


async def test_no_commit_can_run_beside_a_checkpoint(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.submit(new_runs(10, "r"))
    writer = store.access.runtime.writer
    found: list[str] = []

    def look_around(statement: str) -> None:
        if "wal_checkpoint" in statement:
            with closing(sqlite3.connect(path, timeout=0)) as db:
                try:
                    db.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    found.append(str(error))

    def checkpoint(database: Database, _: object) -> None:
        db = cast("SQLiteDatabase", database).raw
        checkpointer = writer._checkpointer
        checkpointer._db = connect_to_read(store._file)
        checkpointer._db.set_trace_callback(look_around)
        db.execute("COMMIT")
        checkpointer._checkpoint(db)

    await writer.call(checkpoint)

    assert found == ["database is locked"]
    await store.close()
