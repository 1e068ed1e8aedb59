"""The writer of a SQLite store: locks and full disks, batches of one commit, and when a settlement is answered."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from laneway.core.lifecycle.step import Emitted, Step
from laneway.core.records.events import draft
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost, StoreUnavailable
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.raw_file import locked
from tests.stores.sqlite.slow_disk import slow_disk
from tests.support.invariants import check_invariants


@pytest.fixture
def patience() -> float:
    return 0.2


def ids(claimed: list[Claimed]) -> list[str]:
    return [run.id for run in claimed]


async def test_another_programs_lock_is_waited_for_and_then_reported(path: Path, store: SQLiteStore) -> None:
    with locked(path), pytest.raises(StoreUnavailable, match=r"locked for 0\.2 s") as caught:
        await store.submit([new_run("a")])

    assert caught.value.maybe_done is False
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    await store.submit([new_run("a")])
    assert (await store.get("a")).number == 1


async def test_a_file_that_another_process_is_making_is_waited_for(path: Path, clock: FakeClock) -> None:
    # The file has no log yet, and to change that SQLite waits for no lock.
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
    db = store.access.runtime.writer._db
    assert db is not None
    db.execute("PRAGMA max_page_count = 50")

    with pytest.raises(StoreUnavailable, match="disk is full; free some space") as caught:
        await store.submit(new_runs(2000, "big"))

    assert caught.value.maybe_done is False
    assert (await store.depths()).runs == {"pending": 1}
    await store.submit(new_runs(2000, "big"))
    await check_invariants(store, logs=False)


@contextmanager
def held_writer(store: SQLiteStore) -> Iterator[Callable[[], None]]:
    """Keep the writer's thread at its desk, so that what is asked meanwhile becomes one batch."""
    arrived, free = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        arrived.set()
        assert free.wait(10)

    thread = threading.Thread(target=store.access.runtime.writer.submit, args=(wait,))
    thread.start()
    assert arrived.wait(10)
    try:
        yield free.set
    finally:
        free.set()
        thread.join()


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
    db = store.access.runtime.writer._db
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
    assert (await store.depths()).runs == {"pending": 2}


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


async def test_a_loop_goes_on_while_another_program_has_the_lock(path: Path, store: SQLiteStore) -> None:
    ticks = 0
    with locked(path):
        receipt = asyncio.create_task(store.submit([new_run("a")]))
        for _ in range(20):
            await asyncio.sleep(0.001)
            ticks += 1
        assert not receipt.done()
    await receipt
    assert ticks == 20


async def test_what_was_submitted_first_is_written_first(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_disk(monkeypatch) as release:
        calls = [asyncio.create_task(store.submit([new_run("first")]))]
        await asyncio.sleep(0.01)
        calls.append(asyncio.create_task(store.submit(new_runs(2, "second", session="s"))))
        await asyncio.sleep(0.01)
        calls.append(asyncio.create_task(store.submit([new_run("third")])))
        await asyncio.sleep(0.01)
        release()
        await asyncio.gather(*calls)

    numbers = {run_id: (await store.get(run_id)).number for run_id in ("first", "second-00001", "third")}
    assert numbers == {"first": 1, "second-00001": 3, "third": 4}


async def test_a_submission_that_fails_alone_in_its_transaction_leaves_nothing(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("laneway.stores.tables.verbs.submissions.wake_for_work", fail)
    await (await Hand(store, tasks=["other"]).register()).rest()
    with pytest.raises(ZeroDivisionError):
        await store.submit([new_run("a")])
    monkeypatch.undo()

    assert (await store.depths()).runs == {}
    await store.submit([new_run("a")])
    assert (await store.get("a")).number == 1


async def test_a_submission_leaves_the_claim_to_the_worker_that_it_wakes(store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await hand.offer_step()

    await store.submit([new_run("a")])

    assert await hand.hears()
    assert (await store.get("a")).state is RunState.PENDING
    assert ids(await hand.claim()) == ["a"]


def interrupted(submission: Coroutine[Any, Any, Any], after: int) -> bool:
    """Begin to submit, and press Ctrl-C after so many calls; return whether there were as many."""
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised where none can pass
async def test_ctrl_c_in_a_submission_wherever_it_comes_leaves_the_writer_usable(store: SQLiteStore) -> None:
    moment, is_over = 0, False
    while not is_over:
        moment += 1
        is_over = not interrupted(store.submit([new_run(f"a{moment}")]), moment - 1)
        await asyncio.wait_for(store.submit([new_run(f"b{moment}")]), 5)
    assert moment > 10
    await check_invariants(store, logs=False)


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


async def test_a_settlement_waits_for_the_disk_before_anybody_sees_it_and_a_claim_never(store: SQLiteStore) -> None:
    # When a submission is answered: test_durability.py.
    statements: list[str] = []
    await store.access.write(lambda db, _: cast("SQLiteDatabase", db).raw.set_trace_callback(statements.append))
    hand = await Hand(store).register()
    assert not any("synchronous" in text for text in statements)

    await store.submit([new_run("a")])
    [run] = await hand.claim()
    assert "PRAGMA synchronous = NORMAL" in statements
    statements.clear()
    await hand.succeed(run)
    assert statements[0] == "PRAGMA synchronous = FULL"
