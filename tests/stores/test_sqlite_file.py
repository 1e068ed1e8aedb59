"""What is particular to SQLite: the file, its locks, its log, and other processes on it."""

# ruff: noqa: ASYNC221, ASYNC230, ASYNC240 - a test's loop has nothing else to do while it looks at a file

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest

from laneway.core.events import draft
from laneway.core.policy import Lane
from laneway.core.run import Claimed
from laneway.core.step import Emitted, Step
from laneway.errors import LeaseLost, NotAStore, StoreTooNew, StoreUnavailable
from laneway.stores.sqlite import SQLiteStore, checkpoints
from laneway.stores.sqlite.connection import connect_to_read
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.tables.database import Database
from laneway.stores.tables.desk import Ask
from laneway.testing import FakeClock, Hand, check_invariants, new_run, new_runs

PROCESS = Path(__file__).with_name("sqlite_process.py")


@pytest.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path, clock, busy_timeout=0.2)
    await store.open()
    yield store
    await store.close()


def ids(claimed: list[Claimed]) -> list[str]:
    return [run.id for run in claimed]


# The file


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

    assert await again.count() == {"running": 1, "pending": 2}
    hand.store = again
    await hand.succeed(claimed, value=42)
    assert (await again.get("a")).result == 42
    assert ids(await hand.claim(5)) == ["b"]
    await check_invariants(again)
    await again.close()


async def test_the_last_to_close_leaves_the_file_and_the_lock(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.submit(new_runs(100, "r"))
    await store.count()

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
    await store.count()
    presence = store._presence
    assert presence.writer._db is not None
    assert presence.reader._db is not None
    for db in (presence.writer._db, presence.reader._db.raw):
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)


# Trouble


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


async def test_another_programs_lock_is_waited_for_and_then_reported(path: Path, store: SQLiteStore) -> None:
    with locked(path), pytest.raises(StoreUnavailable, match=r"locked for 0\.2 s") as caught:
        await store.submit([new_run("a")])

    assert caught.value.maybe_done is False
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    await store.submit([new_run("a")])
    assert (await store.get("a")).number == 1


async def test_a_file_that_another_process_is_making_is_waited_for(path: Path, clock: FakeClock) -> None:
    # It is not told to keep a log yet, and to change that SQLite waits for nobody.
    store = SQLiteStore(path, clock, busy_timeout=5)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opening = asyncio.create_task(store.open())
        done, _ = await asyncio.wait([opening], timeout=0.1)
        assert not done
        other.execute("ROLLBACK")
    await opening
    await store.close()

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_file_that_another_process_is_making_for_ever_is_reported(path: Path, clock: FakeClock) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"locked for 0\.05 s"):
            await SQLiteStore(path, clock, busy_timeout=0.05).open()


async def test_a_full_disk_is_reported_and_nothing_of_the_batch_is_there(store: SQLiteStore) -> None:
    await store.submit([new_run("small")])
    db = store._presence.writer._db
    assert db is not None
    db.execute("PRAGMA max_page_count = 50")

    with pytest.raises(StoreUnavailable, match="disk is full; free some space") as caught:
        await store.submit(new_runs(2000, "big"))

    assert caught.value.maybe_done is False
    assert await store.count() == {"pending": 1}
    await store.submit(new_runs(2000, "big"))
    await check_invariants(store, logs=False)


@contextmanager
def held_writer(store: SQLiteStore) -> Iterator[Callable[[], None]]:
    """Keep the writer's thread at its desk, so that what is asked meanwhile becomes one batch."""
    arrived, free = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        arrived.set()
        assert free.wait(10)

    thread = threading.Thread(target=store._presence.writer.write_later, args=(wait,))
    thread.start()
    assert arrived.wait(10)
    try:
        yield free.set
    finally:
        free.set()
        thread.join()


async def test_a_thread_does_its_work_itself_while_the_writer_rests_and_leaves_it_to_the_writer_else(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, left = store._presence.writer, threading.Event()
    put = writer._put

    def worked() -> str:
        return writer.write_later(lambda *_: threading.current_thread().name).result()

    def noted(ask: Ask) -> None:
        put(ask)
        left.set()

    while await asyncio.to_thread(worked) == writer._name:  # it tidies up after what was asked before
        pass
    with held_writer(store) as release:
        monkeypatch.setattr(writer, "_put", noted)
        waits = asyncio.create_task(asyncio.to_thread(worked))
        assert await asyncio.to_thread(left.wait, 10)
        release()

        assert await waits == writer._name


async def test_one_failing_item_of_a_group_leaves_its_neighbours_alone(store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    with held_writer(store) as release:
        asks = [
            asyncio.ensure_future(store.submit([new_run("a")])),
            asyncio.ensure_future(store.step(Step("nobody", 1, room=1))),
            asyncio.ensure_future(store.submit([new_run("b", lane="x" * 10, args={"n": 1})])),
            asyncio.ensure_future(store.submit([new_run("a"), new_run("c")])),
            asyncio.ensure_future(hand.claim(2)),
        ]
        await asyncio.sleep(0)
        release()
        first, refused, second, third, claimed = await asyncio.gather(*asks, return_exceptions=True)

    assert isinstance(refused, LeaseLost)
    assert [len(answer) for answer in (first, second, third) if isinstance(answer, list)] == [1, 1, 2]
    assert isinstance(claimed, list)
    assert ids(claimed) == ["a", "b"]
    assert (await store.get("c")).number == 3
    await check_invariants(store)


async def test_a_group_is_one_commit(store: SQLiteStore) -> None:
    commits: list[str] = []
    db = store._presence.writer._db
    assert db is not None
    db.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
    with held_writer(store) as release:
        asks = [asyncio.ensure_future(store.submit([new_run()])) for _ in range(20)]
        await asyncio.sleep(0)
        release()
        await asyncio.gather(*asks)

    assert len(commits) == 2  # of the piece that kept the thread busy, and of the twenty


async def test_a_caller_that_gives_up_changes_nothing_for_the_others(store: SQLiteStore) -> None:
    with held_writer(store) as release:
        impatient = asyncio.ensure_future(store.submit([new_run("impatient")]))
        patient = asyncio.ensure_future(store.submit([new_run("patient")]))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        release()
        await patient

    assert impatient.cancelled()
    assert await store.count() == {"pending": 2}


async def test_a_loop_that_is_gone_does_not_take_the_writer_along(store: SQLiteStore) -> None:
    async def ask_and_go() -> None:
        task = asyncio.ensure_future(store.submit([new_run("orphan")]))
        await asyncio.sleep(0)
        task.cancel()

    with held_writer(store) as release:
        thread = threading.Thread(target=asyncio.run, args=(ask_and_go(),))
        thread.start()
        await asyncio.to_thread(thread.join)
        release()

    assert (await store.submit([new_run("next")]))[0].run_id == "next"
    assert (await store.get("orphan")).number == 1


async def test_renewing_works_from_a_thread_of_its_own(store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim()

    reply = await asyncio.to_thread(store.renew, hand.name)

    assert reply.leases == [(run.number, 1)]


# Events


async def test_a_claim_writes_no_event_and_its_start_is_seen_all_the_same(path: Path, store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim()

    def stored() -> list[tuple[int]]:
        with closing(sqlite3.connect(path)) as db:
            return db.execute(
                "SELECT seq FROM event UNION ALL SELECT events - 1 FROM outcome WHERE log > ''"
            ).fetchall()

    assert stored() == []
    [started] = await store.events("a")
    assert (started.seq, started.kind, started.data) == (1, "started", {"worker": "hand"})

    await hand.step(emitted=[Emitted(run.number, run.fence, (draft("log", {"text": "hello"}),))])
    assert stored() == [(1,)]
    assert [event.kind for event in await store.events("a")] == ["started", "log"]
    assert (await store.events("a", limit=1)) == [started]

    await hand.succeed(run, value="done")
    assert stored() == [(1,), (3,)]
    events = await store.events("a", after=1)
    assert [(event.seq, event.kind) for event in events] == [(2, "log"), (3, "result"), (4, "done")]
    assert events[1].data == {"value": "done"}


# Durability


async def test_everything_but_a_claim_waits_for_the_disk(store: SQLiteStore) -> None:
    statements: list[str] = []
    await store._write(lambda db, _: cast("SQLiteDatabase", db).raw.set_trace_callback(statements.append))
    hand = await Hand(store).register()

    await store.submit([new_run("a")])
    assert not any("synchronous" in text for text in statements)
    [run] = await hand.claim()
    assert "PRAGMA synchronous = NORMAL" in statements
    statements.clear()
    await hand.succeed(run)
    assert statements[0] == "PRAGMA synchronous = FULL"


# Others on the same file


async def test_who_waits_for_the_write_lock_is_next(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    with Path(f"{path}-lock").open("r+") as file:

        def free() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            fcntl.flock(file, fcntl.LOCK_UN)
            return True

        assert free()
        with locked(path):
            patient = SQLiteStore(path, clock, busy_timeout=30)
            waits = asyncio.ensure_future(patient.submit([new_run("patient")]))
            # It keeps the kernel lock while it waits, so whoever has just committed cannot overtake it.
            await asyncio.to_thread(lambda: all(iter(free, False)))
            assert not waits.done()
        await waits

        assert free()
        await patient.close()


async def test_two_stores_on_one_file_share_the_work(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    other = SQLiteStore(path, clock)
    one, two = await Hand(store, "one").register(), await Hand(other, "two").register()
    await store.submit(new_runs(40, "r", user="ann"))
    claimed: list[str] = []

    async def work(hand: Hand) -> None:
        while runs := await hand.claim(3):
            claimed.extend(run.id for run in runs)
            await hand.succeed(*runs)

    await asyncio.gather(work(one), work(two))

    assert sorted(claimed) == sorted({run.id for run in new_runs(40, "r")})
    assert await other.count() == {"succeeded": 40}
    await check_invariants(other)
    await other.close()


async def test_a_store_beside_it_wakes_the_worker(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    other = SQLiteStore(path, clock)
    hand = await Hand(store).register()
    await hand.rest()

    await other.submit([new_run("a")])

    assert await hand.hears()
    assert ids((await hand.rest()).claimed) == ["a"]
    await other.close()


async def test_looking_sees_what_others_wrote_and_nothing_else(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    other = SQLiteStore(path, clock)
    await other.open()
    await asyncio.sleep(0.05)  # a writer that tidies up cannot be asked
    store.look()
    assert not store.look()

    await other.submit([new_run("a")])
    assert store.look()
    assert not store.look()

    await store.get("a")
    await store.submit([new_run("b")])
    await asyncio.sleep(0.05)
    assert not store.look()
    await other.close()


async def test_the_first_look_of_a_store_sees_nothing_if_nothing_happened_since_it_was_opened(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    await store.submit([new_run("a")])  # by now the first connection stands, and nobody has looked yet
    await asyncio.sleep(0.05)
    assert not store.look()

    other = SQLiteStore(path, clock)
    await other.submit([new_run("b")])
    assert store.look()
    await other.close()


async def test_a_socket_of_a_dead_process_is_removed_by_the_next(store: SQLiteStore) -> None:
    folder = store._presence._folder
    folder.path.mkdir(mode=0o700, exist_ok=True)
    dead = folder.path / "w-1-dead"
    subprocess.run([sys.executable, "-c", _BIND, str(dead)], check=True)
    assert dead.exists()

    store.watch(lambda: None)

    assert not dead.exists()


_BIND = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind(sys.argv[1])"


async def test_without_a_socket_the_worker_still_finds_work_by_looking(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.stores.sqlite.wakeups._PATH_LIMIT", 1)
    store, other = SQLiteStore(path, clock), SQLiteStore(path, clock)
    hand = await Hand(store).register()
    await hand.rest()
    await asyncio.sleep(0.05)  # a writer that tidies up cannot be asked
    store.look()

    await other.submit([new_run("a")])

    assert hand.woken == 0
    assert store.look()
    assert ids((await hand.rest()).claimed) == ["a"]
    await store.close()
    await other.close()


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
    store._presence.writer._checkpointer._limit = 50
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
    store._presence.writer._checkpointer._limit = 20
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


async def test_no_commit_can_run_beside_a_checkpoint(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.submit(new_runs(10, "r"))
    writer = store._presence.writer
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
        checkpointer._db = connect_to_read(store._place)
        checkpointer._db.set_trace_callback(look_around)
        db.execute("COMMIT")
        checkpointer._checkpoint(db)

    await writer.write(checkpoint)

    assert found == ["database is locked"]
    await store.close()


# Other processes


@contextmanager
def process(path: Path, act: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", str(PROCESS), str(path), act]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with started:
            yield started
            started.wait(30)
    finally:
        started.kill()


async def line(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return (await asyncio.to_thread(started.stdout.readline)).strip()


def go(started: subprocess.Popen[str]) -> None:
    assert started.stdin is not None
    started.stdin.write("go\n")
    started.stdin.flush()


@pytest.mark.system
async def test_a_submission_wakes_a_worker_of_another_process(path: Path, store: SQLiteStore) -> None:
    with process(path, "rest") as sleeper:
        assert await line(sleeper) == "resting"

        await store.submit([new_run("a")])

        assert await line(sleeper) == "woken"
        assert await line(sleeper) == "a"


@pytest.mark.system
async def test_a_watcher_of_another_process_hears_of_events(path: Path, store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    with process(path, "watch") as watcher:
        assert await line(watcher) == "watching"

        await hand.claim()

        assert await line(watcher) == "heard"


@pytest.mark.system
async def test_processes_on_one_file_share_the_work_and_lose_nothing(path: Path, clock: FakeClock) -> None:
    with process(path, "submit") as one, process(path, "submit") as two:
        assert [await line(one), await line(two)] == ["ready", "ready"]
        go(one)
        go(two)
    with process(path, "work") as three, process(path, "work") as four:
        assert [await line(three), await line(four)] == ["ready", "ready"]
        go(three)
        go(four)
        told = await asyncio.gather(*(asyncio.to_thread(other.communicate) for other in (three, four)))
    claimed = [id_ for out, _ in told for id_ in out.split()]

    store = SQLiteStore(path, clock)
    assert await store.count() == {"succeeded": 400}
    assert len(claimed) == len(set(claimed)) == 400
    await check_invariants(store)
    await store.close()


@pytest.mark.system
async def test_a_forked_child_can_use_the_store_and_so_can_its_parent(path: Path) -> None:
    with process(path, "fork") as forked:
        assert (await line(forked)).split() == ["status", "0", "1", "2", "3"]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_only_the_owner_may_look_into_the_folder_of_sockets(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    stop = store.watch(lambda: None)
    folder = store._presence._folder.path

    mode = folder.stat().st_mode & 0o777
    assert mode == 0o700
    assert all(len(os.fsencode(item)) < 104 for item in folder.iterdir())
    stop()
    asyncio.run(store.close())
    assert not folder.exists()
