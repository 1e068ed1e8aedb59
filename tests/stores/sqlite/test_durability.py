"""A SQLite store's submissions: seen at once, receipted when they are on the disk, and disks that fail."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from laneway.core.records.policy import Lane, Mode, SessionPolicy, WhenFull
from laneway.errors import StoreUnavailable
from laneway.ports.settings import LaneSetting
from laneway.stores.sqlite import log_sync, writer
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.sqlite.writer import SQLiteWriter
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.slow_disk import at_rest, real_sync, slow_disk
from tests.support.invariants import check_invariants
from tests.support.waits import until

# Answers that wait for the disk


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
    """A power cut may leave the files as they were at the last sync."""
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

    monkeypatch.setattr(log_sync, "sync_file", sync)
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
    # A worker that was killed before the sync has given nobody an answer.
    await store.submit([new_run("a", key="k")])
    before = len(syncs)

    await store.submit([new_run("a", key="k")])
    assert len(syncs) == before + 1

    other = SQLiteStore(path, clock)
    await other.submit([new_run("b", key="k")])
    assert len(syncs) == before + 2
    assert (await other.depths()).runs == {"pending": 1}
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
    db = store.access.runtime.writer._db
    assert db is not None
    db.set_trace_callback(statements.append)
    with store.access.runtime.writer.busy:
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
    # A caller that learned of a cancelled run must not find it executed after a power cut.
    hand = await Hand(store).register()
    if session is None:
        await store.set(LaneSetting(Lane("main", max_pending=1, when_full=WhenFull.DROP_OLD)))
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
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    monkeypatch.setattr(writer, "CAN_SYNC", False)
    store = SQLiteStore(path, clock)
    await store.open()
    db = store.access.runtime.writer._db
    assert db is not None
    statements: list[str] = []
    db.set_trace_callback(statements.append)

    await store.submit([new_run("a")])

    assert not any("NORMAL" in text for text in statements)
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
        reader.execute("SELECT count(*) FROM run").fetchone()  # later frames of the log cannot be moved
        monkeypatch.setattr(log_sync, "sync_file", fail)
        with pytest.raises(StoreUnavailable, match="failed to keep part of its log; look at the disk") as caught:
            await store.submit([new_run("b")])
        assert caught.value.maybe_done is True
        monkeypatch.setattr(log_sync, "sync_file", real_sync)
        with pytest.raises(StoreUnavailable, match="end long reads") as caught:
            await store.submit([new_run("c")])
        assert caught.value.maybe_done is False

    await store.submit([new_run("b")])
    await store.submit([new_run("c")])
    assert (await store.depths()).runs == {"pending": 3}
    await check_invariants(store, logs=False)


async def test_a_commit_that_the_disk_did_not_take_leaves_the_same_gap(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel reports a failed sync to open descriptors only once; one that is opened later gets no error.
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim()
    execute = SQLiteWriter._execute

    class Failing:
        def execute(self, _: str) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

    def fail(self: SQLiteWriter, db: sqlite3.Connection, statement: str, *, maybe_done: bool = False) -> None:
        there = cast("sqlite3.Connection", Failing()) if statement == "COMMIT" else db
        execute(self, there, statement, maybe_done=maybe_done)

    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM run").fetchone()  # later frames of the log cannot be moved
        await store.submit([new_run("b")])
        monkeypatch.setattr(SQLiteWriter, "_execute", fail)
        with pytest.raises(StoreUnavailable, match="the disk failed") as caught:
            await hand.succeed(run)
        assert caught.value.maybe_done is True
        monkeypatch.setattr(SQLiteWriter, "_execute", execute)
        with pytest.raises(StoreUnavailable, match="end long reads"):
            await hand.succeed(run)

    await hand.succeed(run)
    await check_invariants(store, logs=False)
