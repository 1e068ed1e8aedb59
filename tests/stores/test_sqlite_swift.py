"""A SQLite store's submissions: seen at once, receipted when they are on the disk, short ones written on the loop."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import cast

import pytest

from laneway.core.codec import ARGS_LIMIT
from laneway.core.policy import Lane, Mode, SessionPolicy, WhenFull
from laneway.core.run import Alike
from laneway.errors import StoreUnavailable
from laneway.stores.sqlite import SQLiteStore, syncing, writer
from laneway.stores.sqlite.writer import SQLiteWriter
from laneway.stores.tables.desk import Ask
from laneway.stores.tables.effects import Effects
from laneway.testing import FakeClock, Hand, check_invariants, new_run, new_runs
from tests.engine.support import until
from tests.stores.behind import locked

real_sync = syncing.sync_file


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Have a disk that takes nothing until it is told to."""
    free = threading.Event()

    def sync(descriptor: int) -> None:
        assert free.wait(10)
        real_sync(descriptor)

    monkeypatch.setattr(syncing, "sync_file", sync)
    try:
        yield free.set
    finally:
        free.set()
        monkeypatch.setattr(syncing, "sync_file", real_sync)


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """Let a loop write however long that takes: a busy machine is not to decide who does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_LONG", 60.0)
        yield


@pytest.fixture
def doers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that made the transactions."""
    found: list[threading.Thread] = []
    transact = SQLiteWriter.transact

    def noted(self: SQLiteWriter, batch: list[Ask]) -> None:
        found.append(threading.current_thread())
        transact(self, batch)

    monkeypatch.setattr(SQLiteWriter, "transact", noted)
    return found


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were synced."""
    found: list[int] = []

    def sync(descriptor: int) -> None:
        found.append(descriptor)
        real_sync(descriptor)

    monkeypatch.setattr(syncing, "sync_file", sync)
    return found


async def at_rest(store: SQLiteStore) -> None:
    """Wait until the writer has done all there was."""
    desk = store._presence.writer
    await until(lambda: desk._rests and not desk.has_chores and not desk.busy.locked())


# What waits for the disk


async def test_a_run_can_start_before_it_is_on_the_disk_and_only_its_receipt_waits(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = await Hand(store).register()
    await hand.rest()
    await at_rest(store)
    with slow_disk(monkeypatch) as release:
        receipt = asyncio.create_task(store.submit([new_run("a")]))
        await until(lambda: hand.woken > 0)
        assert (await store.get("a")).id == "a"
        assert not receipt.done()
        release()
        assert [each.run_id for each in await receipt] == ["a"]


async def test_another_process_sees_a_run_whose_receipt_waits(
    path: Path, store: SQLiteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SQLiteStore(path, clock)
    await other.open()
    hand = await Hand(other).register()
    with slow_disk(monkeypatch) as release:
        receipt = asyncio.create_task(store.submit([new_run("a")]))
        while not (claimed := await hand.claim()):  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        assert [run.id for run in claimed] == ["a"]
        assert not receipt.done()
        release()
        await receipt
    await hand.succeed(*claimed)
    await other.close()


async def test_what_has_a_receipt_is_there_after_a_power_cut(
    path: Path, store: SQLiteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files as they were at the last sync are what a power cut may leave."""
    cuts, given, checked = list[Path](), set[str](), 0

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        cut = tmp_path / f"cut-{len(cuts)}"
        cut.mkdir()
        for name in (path.name, f"{path.name}-wal"):
            shutil.copy(path.with_name(name), cut / name)
        cuts.append(cut)

    def left() -> set[str]:
        with closing(sqlite3.connect(cuts[-1] / path.name)) as db:
            return {run_id for (run_id,) in db.execute("SELECT id FROM run")}

    monkeypatch.setattr(syncing, "sync_file", sync)
    hand = await Hand(store).register()

    async def submit(caller: int) -> None:
        nonlocal checked
        for number in range(10):
            batch = new_runs(1 + number % 3, f"c{caller}-{number}")
            receipts = await store.submit(batch)
            given.update(receipt.run_id for receipt in receipts)
            if (caller + number) % 5 == 0:
                assert given <= left()
                checked += 1
            if caller == 0:
                await hand.claim(2)  # which does not wait for the disk

    await asyncio.gather(*(submit(caller) for caller in range(6)))

    assert checked >= 10
    assert given <= left()
    await check_invariants(store, logs=False)


async def test_a_repeated_submission_waits_for_the_disk_though_it_writes_nothing(
    path: Path, store: SQLiteStore, clock: FakeClock, syncs: list[int]
) -> None:
    # Who was given the first one's run, or was killed before its sync, may have told nobody.
    await store.submit([new_run("a", key="k")])
    before = len(syncs)

    await store.submit([new_run("a", key="k")])
    assert len(syncs) == before + 1

    other = SQLiteStore(path, clock)
    await other.submit([new_run("b", key="k")])
    assert len(syncs) == before + 2
    assert await other.count() == {"pending": 1}
    await other.close()


async def test_submissions_beside_a_settlement_are_on_the_disk_by_its_commit(
    store: SQLiteStore, syncs: list[int]
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim()
    before = len(syncs)
    statements: list[str] = []
    await at_rest(store)
    db = store._presence.writer._db
    assert db is not None
    db.set_trace_callback(statements.append)
    with store._presence.writer.busy:
        asks = [asyncio.create_task(hand.succeed(run)), asyncio.create_task(store.submit([new_run("b")]))]
        await asyncio.sleep(0.05)
    await asyncio.gather(*asks)

    assert statements.count("COMMIT") == 1
    assert statements[0] == "PRAGMA synchronous = FULL"
    assert len(syncs) == before


@pytest.mark.parametrize(
    ("session", "mode", "event"),
    [
        (None, Mode.QUEUE, "dropped"),
        ("s", Mode.INTERRUPT, "dropped"),
        ("s", Mode.COLLECT, "merged"),
        ("s", Mode.STEER, "steered"),
    ],
)
async def test_what_a_submission_does_to_other_runs_is_on_the_disk_before_anybody_sees_it(
    session: str | None, mode: Mode, event: str, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who was told that a run is gone must not find it executed after a power cut.
    hand = await Hand(store).register()
    if session is None:
        await store.set_lane(Lane("main", max_pending=1, when_full=WhenFull.DROP_OLD))
    else:
        await store.submit([new_run("0", session=session)])
        claimed = await hand.claim()
        assert [run.id for run in claimed] == ["0"]
    await store.submit([new_run("a", session=session)])
    await at_rest(store)
    taker = "0" if mode is Mode.STEER else "a"
    before = {each.kind for each in await store.events(taker)}
    policy = None if session is None else SessionPolicy(mode=mode)
    with slow_disk(monkeypatch) as release:
        receipt = asyncio.create_task(store.submit([new_run("b", session=session, policy=policy)]))
        await asyncio.wait({receipt}, timeout=0.1)
        is_done, after = receipt.done(), {each.kind for each in await store.events(taker)}
        release()
        await receipt
    assert event not in before
    assert is_done or event not in after
    assert event in {each.kind for each in await store.events(taker)}
    await check_invariants(store, logs=False)


async def test_where_the_log_cannot_be_synced_by_itself_a_commit_waits_for_the_disk(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, doers: list[threading.Thread], syncs: list[int]
) -> None:
    monkeypatch.setattr(writer, "CAN_SYNC", False)
    store = SQLiteStore(path, clock)
    await store.open()
    db = store._presence.writer._db
    assert db is not None
    statements: list[str] = []
    db.set_trace_callback(statements.append)

    await store.submit([new_run("a")])

    assert not any("NORMAL" in text for text in statements)
    assert threading.current_thread() not in doers
    assert syncs == []
    await store.close()


async def test_a_receipt_waits_for_the_disk_also_where_the_path_is_a_link_to_the_file(
    path: Path, clock: FakeClock, syncs: list[int]
) -> None:
    # SQLite has the log beside the file, not beside the link.
    link = path.with_name("link.db")
    link.symlink_to(path)
    store = SQLiteStore(link, clock)
    await store.open()
    before = len(syncs)
    await store.submit([new_run("a")])
    assert len(syncs) == before + 1
    await store.close()


# A disk that fails


async def test_what_the_disk_did_not_take_is_reported_and_nothing_is_written_before_the_log_is_in_the_file(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit([new_run("a")])

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM run").fetchone()  # what comes after that cannot be moved
        monkeypatch.setattr(syncing, "sync_file", fail)
        with pytest.raises(StoreUnavailable, match="failed to keep part of its log; look at the disk") as caught:
            await store.submit([new_run("b")])
        assert caught.value.maybe_done is True
        monkeypatch.setattr(syncing, "sync_file", real_sync)
        with pytest.raises(StoreUnavailable, match="end long reads") as caught:
            await store.submit([new_run("c")])
        assert caught.value.maybe_done is False

    await store.submit([new_run("b")])
    await store.submit([new_run("c")])
    assert await store.count() == {"pending": 3}
    await check_invariants(store, logs=False)


async def test_one_that_was_begun_while_another_failed_to_reach_the_disk_hears_of_it(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit([new_run("a")])
    await at_rest(store)
    desk = store._presence.writer
    put = desk._put

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def overtaken(ask: Ask) -> None:
        # Between its commit and the thread another batch goes to the disk, in vain.
        monkeypatch.setattr(desk, "_put", put)
        monkeypatch.setattr(syncing, "sync_file", fail)
        with desk.busy:
            desk.finish([])
        monkeypatch.setattr(syncing, "sync_file", real_sync)
        put(ask)

    monkeypatch.setattr(desk, "_put", overtaken)
    with pytest.raises(StoreUnavailable, match="failed to keep") as caught:
        await store.submit([new_run("b")])
    assert caught.value.maybe_done is True


async def test_a_commit_that_the_disk_did_not_take_leaves_the_same_gap(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SQLite was told that the log did not reach the disk; a descriptor that is opened after that is told nothing.
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim()
    await at_rest(store)
    desk = store._presence.writer
    put, execute = desk._put, SQLiteWriter._execute

    class Failing:
        def execute(self, _: str) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

    def fail(self: SQLiteWriter, db: sqlite3.Connection, statement: str, *, maybe_done: bool = False) -> None:
        there = cast("sqlite3.Connection", Failing()) if statement == "COMMIT" else db
        execute(self, there, statement, maybe_done=maybe_done)

    def overtaken(ask: Ask) -> None:
        # Between its commit and the thread a settlement goes to the disk, in vain.
        monkeypatch.setattr(desk, "_put", put)
        monkeypatch.setattr(SQLiteWriter, "_execute", fail)
        settling = Ask(lambda _: None, None, Effects())
        with desk.busy:
            desk._do([settling])
        assert isinstance(settling.error, StoreUnavailable)
        monkeypatch.setattr(SQLiteWriter, "_execute", execute)
        put(ask)

    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM run").fetchone()  # what comes after that cannot be moved
        monkeypatch.setattr(desk, "_put", overtaken)
        with pytest.raises(StoreUnavailable, match="failed to keep part of its log") as caught:
            await store.submit([new_run("b")])
        assert caught.value.maybe_done is True
        with pytest.raises(StoreUnavailable, match="end long reads"):
            await hand.succeed(run)

    await hand.succeed(run)
    await check_invariants(store, logs=False)


# Who writes


async def test_a_short_submission_is_written_on_its_callers_loop_while_the_writer_rests(
    store: SQLiteStore, doers: list[threading.Thread]
) -> None:
    await at_rest(store)
    await store.submit([new_run("a")])
    assert doers == [threading.current_thread()]


async def test_what_may_take_longer_is_left_to_the_writers_thread(
    store: SQLiteStore, doers: list[threading.Thread]
) -> None:
    for batch in (new_runs(300, "b"), [new_run("c", session="s")], [new_run("d", delay=1)], [new_run("e", key="k")]):
        await at_rest(store)
        await store.submit(batch)
    assert threading.current_thread() not in doers
    assert len(doers) == 4


async def test_much_data_is_left_to_the_writers_thread(store: SQLiteStore, doers: list[threading.Thread]) -> None:
    # Runs that are alike, few enough to be short, and as large as they may be: 64 MiB in one go.
    large = f'"{"x" * (ARGS_LIMIT - 2)}"'
    for ids, args in ((["a"], large), ([f"b{number}" for number in range(16)], large), (["c"], large + " ")):
        await at_rest(store)
        await store.submit(Alike("task", "main", ids, [args] * len(ids)))
    assert [doer is threading.current_thread() for doer in doers] == [True, False, False]


async def test_none_that_are_alike_are_submitted_as_any_none(store: SQLiteStore) -> None:
    await at_rest(store)
    assert await store.submit([]) == []
    assert await store.submit(Alike("task", "main", [], [])) == []


async def test_a_loop_does_not_wait_for_anothers_lock(
    path: Path, store: SQLiteStore, doers: list[threading.Thread]
) -> None:
    await at_rest(store)
    ticks = 0
    with locked(path):
        receipt = asyncio.create_task(store.submit([new_run("a")]))
        for _ in range(20):
            await asyncio.sleep(0.001)
            ticks += 1
        assert not receipt.done()
    await receipt
    assert ticks == 20
    assert threading.current_thread() not in doers


async def test_what_was_asked_first_is_written_first(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await at_rest(store)
    with slow_disk(monkeypatch) as release:
        asks = [asyncio.create_task(store.submit([new_run("first")]))]
        await asyncio.sleep(0.01)
        asks.append(asyncio.create_task(store.submit(new_runs(2, "second", session="s"))))
        await asyncio.sleep(0.01)
        asks.append(asyncio.create_task(store.submit([new_run("third")])))
        await asyncio.sleep(0.01)
        release()
        await asyncio.gather(*asks)

    numbers = {run_id: (await store.get(run_id)).number for run_id in ("first", "second-00001", "third")}
    assert numbers == {"first": 1, "second-00001": 3, "third": 4}


async def test_after_a_long_time_on_the_loop_the_thread_writes_for_a_while(
    store: SQLiteStore, doers: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = threading.current_thread()
    monkeypatch.setattr(writer, "_LONG", -1)
    await at_rest(store)
    await store.submit([new_run("a")])
    await at_rest(store)
    await store.submit([new_run("b")])
    assert [doer is loop for doer in doers] == [True, False]

    monkeypatch.setattr(store._presence.writer, "_patience", 0.0)
    await at_rest(store)
    await store.submit([new_run("c")])
    assert doers[-1] is loop


async def test_the_commit_that_begins_the_log_anew_is_not_made_on_a_loop(
    store: SQLiteStore, doers: list[threading.Thread]
) -> None:
    # SQLite waits for the disk then.
    desk = store._presence.writer
    await at_rest(store)
    with desk.busy:
        assert desk._db is not None
        assert desk._checkpointer.move_all(desk._db)
    await store.submit([new_run("a")])
    await at_rest(store)
    await store.submit([new_run("b")])
    assert [doer is threading.current_thread() for doer in doers] == [False, True]


async def test_what_was_begun_when_the_store_is_closed_is_finished(
    path: Path, store: SQLiteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    await at_rest(store)
    desk = store._presence.writer
    begin = desk.begin

    def closing_meanwhile(ask: Ask) -> bool:
        done = begin(ask)
        desk._stopped = True
        return done

    monkeypatch.setattr(desk, "begin", closing_meanwhile)
    [receipt] = await store.submit([new_run("a")])
    assert receipt.run_id == "a"
    assert len(syncs) == 1
    desk._stopped = False

    again = SQLiteStore(path, clock)
    assert await again.count() == {"pending": 1}
    await again.close()


async def test_a_sync_after_the_store_was_closed_leaves_no_descriptor_behind(
    path: Path, store: SQLiteStore, syncs: list[int]
) -> None:
    await store.submit([new_run("a")])
    await at_rest(store)
    desk = store._presence.writer
    with closing(sqlite3.connect(path)) as other, desk.busy:
        other.execute("SELECT count(*) FROM run").fetchone()  # so that the log stays
        desk.let_go()
        desk._owes = True
        desk.finish([])

    assert len(syncs) == 2
    assert desk._log._descriptor is None


async def test_a_wrong_submission_is_undone_on_the_loop_as_well(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(store)
    monkeypatch.setattr("laneway.stores.tables.plain.wake_for_work", _raise)
    monkeypatch.setattr("laneway.stores.tables.submitting.wake_for_work", _raise)
    hand = await Hand(store, tasks=["other"]).register()
    await hand.rest()
    await at_rest(store)
    with pytest.raises(ZeroDivisionError):
        await store.submit([new_run("a")])
    monkeypatch.undo()
    assert await store.count() == {}
    await store.submit([new_run("a")])
    assert (await store.get("a")).number == 1


@pytest.mark.parametrize("where", ["laneway.stores.tables.plain.Receipt", f"{writer.__name__}.SQLiteWriter._execute"])
async def test_ctrl_c_in_the_middle_of_it_leaves_nothing_half_done(
    where: str, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(store)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.submit([new_run("a")]).send(None)
    monkeypatch.undo()

    await store.submit([new_run("b")])
    assert await store.count() == {"pending": 1}
    assert (await store.get("b")).number == 1
    await check_invariants(store, logs=False)


async def test_ctrl_c_between_the_lock_and_the_work_leaves_no_transaction_behind(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The next to come, perhaps a settlement, would go on with it, and not wait for the disk.
    await at_rest(store)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SQLiteWriter, "do", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.submit([new_run("a")]).send(None)
    monkeypatch.undo()

    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody has the lock
        other.execute("ROLLBACK")
    await store.submit([new_run("b")])
    assert await store.count() == {"pending": 1}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may come where nothing is raised
async def test_ctrl_c_wherever_it_comes_leaves_the_writer_free(store: SQLiteStore) -> None:
    desk, moment, is_over = store._presence.writer, 0, False
    while not is_over:
        await at_rest(store)
        left, moment = moment, moment + 1

        def interrupt(_: FrameType, event: str, __: object) -> None:
            # Python looks for signals when a call of its own begins, and when one of C has ended.
            nonlocal left
            if event in {"call", "c_return"}:
                left -= 1
                if left < 0:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        submission = store.submit([new_run(f"a{moment}")])
        sys.setprofile(interrupt)
        try:
            submission.send(None)
            is_over = left >= 0
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
            submission.close()
        await until(lambda: not desk.busy.locked())
        await asyncio.wait_for(store.submit([new_run(f"b{moment}")]), 5)
    assert moment > 50
    await check_invariants(store, logs=False)


def _raise(*_: object) -> None:
    raise ZeroDivisionError
