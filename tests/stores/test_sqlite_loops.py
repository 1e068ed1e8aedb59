"""Short submissions to a SQLite store, written on the loop of their caller: which ones, and what may come between."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from laneway.core.records.codec import ARGS_LIMIT
from laneway.core.records.run import UniformBatch
from laneway.stores.sqlite import writer
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.sqlite.writer import SQLiteWriter
from laneway.stores.tables.runtime.worker_thread import Ask
from laneway.stores.tables.verbs import submissions
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.raw_file import locked
from tests.stores.sqlite.slow_disk import at_rest, slow_disk
from tests.support.invariants import check_invariants
from tests.support.waits import until

pytestmark = pytest.mark.usefixtures("patient")


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
        await store.submit(UniformBatch("task", "main", ids, [args] * len(ids)))
    assert [doer is threading.current_thread() for doer in doers] == [True, False, False]


async def test_none_that_are_alike_are_submitted_as_any_none(store: SQLiteStore) -> None:
    await at_rest(store)
    assert await store.submit([]) == []
    assert await store.submit(UniformBatch("task", "main", [], [])) == []


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
    assert (await again.depths()).runs == {"pending": 1}
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
    monkeypatch.setattr("laneway.stores.tables.verbs.submissions.wake_for_work", _raise)
    monkeypatch.setattr("laneway.stores.tables.verbs.submissions.wake_for_work", _raise)
    hand = await Hand(store, tasks=["other"]).register()
    await hand.rest()
    await at_rest(store)
    with pytest.raises(ZeroDivisionError):
        await store.submit([new_run("a")])
    monkeypatch.undo()
    assert (await store.depths()).runs == {}
    await store.submit([new_run("a")])
    assert (await store.get("a")).number == 1


@pytest.mark.parametrize("where", [f"{submissions.__name__}.Receipt", f"{writer.__name__}.SQLiteWriter._execute"])
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
    assert (await store.depths()).runs == {"pending": 1}
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
    assert (await store.depths()).runs == {"pending": 1}


def interrupted(submission: Coroutine[Any, Any, Any], after: int) -> bool:
    """Begin to submit, and press Ctrl-C after so many calls; tell whether there were as many."""
    left = after

    def interrupt(_: FrameType, event: str, __: object) -> None:
        # Python looks for signals when a call of its own begins, and when one of C has ended.
        nonlocal left
        if event in {"call", "c_return"}:
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        submission.send(None)
        return left < 0
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        submission.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may come where nothing is raised
async def test_ctrl_c_wherever_it_comes_leaves_the_writer_free(store: SQLiteStore) -> None:
    desk, moment, is_over = store._presence.writer, 0, False
    while not is_over:
        await at_rest(store)
        moment += 1

        is_over = not interrupted(store.submit([new_run(f"a{moment}")]), moment - 1)
        await until(lambda: not desk.busy.locked())
        await asyncio.wait_for(store.submit([new_run(f"b{moment}")]), 5)
    assert moment > 50
    await check_invariants(store, logs=False)


def _raise(*_: object) -> None:
    raise ZeroDivisionError
