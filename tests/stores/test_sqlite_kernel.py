"""A loop that waits for the disk without a thread: the kernel syncs the log of a SQLite file, and tells the loop."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from laneway.core.run import Receipt
from laneway.errors import StoreUnavailable
from laneway.stores.sqlite import SQLiteStore, kernel
from laneway.stores.sqlite.checkpoints import PAGES
from laneway.stores.sqlite.kernel import Done, KernelSync, kernel_of
from laneway.stores.tables.desk import Ask
from laneway.testing import FakeClock, Hand, check_invariants, new_run, new_runs
from tests.engine.support import until
from tests.stores.slow_disks import at_rest

pytestmark = [
    pytest.mark.usefixtures("patient", "asked_kernel"),
    pytest.mark.skipif(not kernel.CAN_ASK, reason="only Linux on x86_64 and aarch64 is asked"),
]


@pytest.fixture
def asked_kernel(waiting_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "CAN_ASK", True)


@contextmanager
def slow_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[OSError | None], None]]:
    """Have a kernel that tells nothing before it is told to, and then this."""
    begin, waiting, told = KernelSync.begin, list[Done](), list[OSError | None]()

    def held(self: KernelSync, descriptor: int, done: Done) -> bool:
        return begin(self, descriptor, lambda _: done(told[0]) if told else waiting.append(done))

    def tell(what: OSError | None) -> None:
        told.append(what)
        for done in waiting:
            done(what)
        waiting.clear()

    monkeypatch.setattr(KernelSync, "begin", held)
    yield tell
    monkeypatch.setattr(KernelSync, "begin", begin)
    if not told:
        tell(None)


async def begun(store: SQLiteStore) -> asyncio.Task[list[Receipt]]:
    """Submit a run, and return when the kernel waits for the disk."""
    receipt = asyncio.create_task(store.submit([new_run("a")]))
    await until(lambda: not store._presence.writer._wait.is_over)
    return receipt


def abandoned(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit a run on a loop that is closed before it hears of the disk."""

    async def abandon() -> None:
        await store.open()
        await at_rest(store)
        assert not (await begun(store)).done()

    with monkeypatch.context() as patch:
        patch.setattr(KernelSync, "begin", lambda *_: True)  # and never a word
        asyncio.run(abandon())


def failed() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


# The kernel


async def test_the_kernel_syncs_a_file_and_tells_the_loop(tmp_path: Path) -> None:
    sync, told = kernel_of(asyncio.get_running_loop()), asyncio.get_running_loop().create_future()
    assert sync is not None
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"x" * 100_000)
        assert sync.begin(file.fileno(), told.set_result)
        # One at a time.
        assert not sync.begin(file.fileno(), told.set_result)
    # The file is closed by now, and synced all the same.
    assert await asyncio.wait_for(told, 5) is None


async def test_what_cannot_be_synced_is_told(tmp_path: Path) -> None:
    sync = kernel_of(asyncio.get_running_loop())
    assert sync is not None
    reading, writing = os.pipe()
    assert not sync.begin(reading, lambda _: None)
    os.close(reading)
    os.close(writing)
    assert not sync.begin(reading, lambda _: None)


def test_every_loop_has_its_own_and_it_is_gone_with_it() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def mine() -> KernelSync | None:
        return kernel_of(asyncio.get_running_loop())

    asyncio.run(mine())
    before = descriptors()
    for _ in range(20):
        assert asyncio.run(mine()) is not None
    assert descriptors() <= before + 1


def test_a_loop_that_is_kept_to_the_end_of_python_ends_quietly() -> None:
    program = """
import asyncio
from laneway.stores.sqlite.kernel import kernel_of
async def mine(): assert kernel_of(loop) is not None
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(mine())
loop.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


async def test_where_the_calls_are_forbidden_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_SETUP", 100_000)  # which Linux answers as what it does not know
    assert kernel_of(asyncio.get_running_loop()) is None


def test_a_child_does_not_use_what_is_its_parents() -> None:
    async def fork() -> int:
        sync = kernel_of(asyncio.get_running_loop())
        assert sync is not None
        child = os.fork()
        if child == 0:
            os._exit(int(sync.begin(0, lambda _: None)))
        return os.waitpid(child, 0)[1]  # noqa: ASYNC222 - it ends at once

    assert asyncio.run(fork()) == 0


def test_a_child_destroys_nothing_of_its_own_when_its_parents_is_collected(tmp_path: Path) -> None:
    async def mine() -> KernelSync:
        sync = kernel_of(asyncio.get_running_loop())
        assert sync is not None
        return sync

    async def sync_one(parents: list[KernelSync]) -> bool:
        own, told = await mine(), asyncio.get_running_loop().create_future()
        parents[0]._context.value = own._context.value  # the kernel often gives both the same
        parents.clear()
        gc.collect()
        with (tmp_path / "file").open("wb") as file:
            return own.begin(file.fileno(), told.set_result) and await asyncio.wait_for(told, 5) is None

    parents = [asyncio.run(mine())]
    child = os.fork()
    if child == 0:
        is_synced = False
        try:
            is_synced = asyncio.run(sync_one(parents))
        finally:
            os._exit(int(not is_synced))
    assert os.waitpid(child, 0)[1] == 0


async def test_after_ctrl_c_nobody_hears_of_another_ones_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, told = kernel_of(asyncio.get_running_loop()), asyncio.get_running_loop().create_future()
    assert sync is not None
    ask = sync._ask

    def interrupted(call: int, *arguments: object) -> None:
        ask(call, *arguments)
        raise KeyboardInterrupt

    with (tmp_path / "file").open("wb") as file:
        with monkeypatch.context() as patch:
            patch.setattr(sync, "_ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                sync.begin(file.fileno(), told.set_result)
        assert not sync.begin(file.fileno(), lambda _: None)  # the first is under way
        assert await asyncio.wait_for(told, 5) is None
        again = asyncio.get_running_loop().create_future()
        assert sync.begin(file.fileno(), again.set_result)
        assert await asyncio.wait_for(again, 5) is None


# The store


async def test_a_submission_on_a_loop_is_on_the_disk_without_the_thread(store: SQLiteStore, syncs: list[int]) -> None:
    await at_rest(store)
    for nth in range(5):
        await store.submit([new_run(f"r{nth}")])
        assert store._presence.writer._rests
    assert syncs == []
    assert await store.count() == {"pending": 5}


async def test_only_the_receipt_waits_and_others_go_by_the_thread_meanwhile(
    store: SQLiteStore, syncs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = await Hand(store).register()
    await hand.rest()
    await at_rest(store)
    with slow_kernel(monkeypatch) as tell:
        receipt = asyncio.create_task(store.submit([new_run("a")]))
        await until(lambda: hand.woken > 0)
        await store.submit([new_run("b")])
        assert len(syncs) == 1
        assert not receipt.done()
        tell(None)
        assert [each.run_id for each in await receipt] == ["a"]
    await at_rest(store)
    await check_invariants(store, logs=False)


async def test_what_the_disk_did_not_take_is_reported_and_nothing_is_written_before_the_log_is_in_the_file(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit([new_run("a")])
    await at_rest(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM run").fetchone()  # what comes after that cannot be moved
        with slow_kernel(monkeypatch) as tell:
            tell(failed())
            with pytest.raises(StoreUnavailable, match="failed to keep part of its log; look at the disk") as caught:
                await store.submit([new_run("b")])
        assert caught.value.maybe_done is True
        with pytest.raises(StoreUnavailable, match="end long reads") as caught:
            await store.submit([new_run("c")])
        assert caught.value.maybe_done is False
    await store.submit([new_run("b")])
    await store.submit([new_run("c")])
    assert await store.count() == {"pending": 3}
    await check_invariants(store, logs=False)


async def test_a_failure_is_heard_also_if_nobody_waits_for_it_any_more(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(store)
    with slow_kernel(monkeypatch) as tell:
        receipt = await begun(store)
        receipt.cancel()
        await asyncio.wait([receipt])
        assert receipt.cancelled()
        tell(failed())
        await until(lambda: store._presence.writer._broke_off)
    await store.submit([new_run("b")])
    assert await store.count() == {"pending": 2}


async def test_a_caller_that_is_cancelled_leaves_the_store_at_rest(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    await at_rest(store)
    with slow_kernel(monkeypatch) as tell:
        receipt = await begun(store)
        receipt.cancel()
        await asyncio.wait([receipt])
        assert not store._presence.writer._rests
        tell(None)
    await at_rest(store)
    await store.submit([new_run("b")])
    assert syncs == []


def test_a_loop_that_was_closed_meanwhile_holds_up_nobody(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(path, clock)

    async def go_on() -> None:
        assert store._presence.writer._rests
        await store.submit([new_run("b")])
        assert await store.count() == {"pending": 2}
        await store.close()

    abandoned(store, monkeypatch)
    asyncio.run(go_on())


async def test_a_store_that_is_closed_meanwhile_gives_the_receipt(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(path, clock)
    await store.open()
    await at_rest(store)
    with slow_kernel(monkeypatch) as tell:
        receipt = await begun(store)
        await store.close()
        assert not receipt.done()
        tell(None)
        assert [each.run_id for each in await receipt] == ["a"]
    await store.open()
    assert await store.count() == {"pending": 1}
    await store.close()


async def test_two_stores_on_one_loop_share_the_kernel_and_the_second_has_its_thread(
    tmp_path: Path, store: SQLiteStore, clock: FakeClock, syncs: list[int]
) -> None:
    other = SQLiteStore(tmp_path / "other.db", clock)
    await other.open()
    await at_rest(store)
    await at_rest(other)
    await asyncio.gather(store.submit([new_run("a")]), other.submit([new_run("b")]))
    assert len(syncs) == 1
    await other.close()


async def test_a_loop_does_not_take_over_what_another_has_left_to_the_thread(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    # Race: between what a loop begins and what it puts down for the thread, another loop may come.
    await at_rest(store)
    desk = store._presence.writer
    put, asks = desk._put, list[Ask]()
    with slow_kernel(monkeypatch), monkeypatch.context() as patch:
        patch.setattr(desk, "_put", asks.append)
        with monkeypatch.context() as busy:
            busy.setattr(KernelSync, "begin", lambda *_: False)
            first = asyncio.create_task(store.submit([new_run("a")]))
            await until(lambda: len(asks) == 1)
        second = asyncio.create_task(store.submit([new_run("b")]))
        await asyncio.sleep(0.01)
        patch.undo()
        for ask in asks:
            put(ask)
        await first
        assert len(syncs) == 1  # no receipt before the disk has it
    await second


async def test_the_kernel_and_the_thread_sync_by_descriptors_of_their_own(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    # Each is told once that a write has failed: one of the two would hear nothing.
    begin, begun = KernelSync.begin, list[int]()

    def noted(self: KernelSync, descriptor: int, done: Done) -> bool:
        begun.append(descriptor)
        return begin(self, descriptor, done)

    monkeypatch.setattr(KernelSync, "begin", noted)
    await at_rest(store)
    await store.submit([new_run("a")])
    await store.submit(new_runs(300, "b"))
    assert len(begun) == len(syncs) == 1
    assert begun != syncs


def test_what_an_abandoned_loop_was_not_told_is_asked_again_by_the_thread(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    store = SQLiteStore(path, clock)

    async def go_on() -> None:
        await store.submit([new_run("b")])
        assert len(syncs) == 1
        await at_rest(store)
        await store.submit([new_run("c")])
        assert len(syncs) == 1
        await store.close()

    abandoned(store, monkeypatch)
    asyncio.run(go_on())


async def test_the_log_is_moved_though_the_thread_is_never_asked(path: Path, store: SQLiteStore) -> None:
    await at_rest(store)
    for nth in range(2000):
        await store.submit([new_run(f"r{nth:04d}")])
    log = path.with_name(f"{path.name}-wal")
    assert log.stat().st_size < 3 * PAGES * 4096
    assert await store.count() == {"pending": 2000}
