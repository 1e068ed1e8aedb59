"""Several on one SQLite file: stores of one process, and other processes."""

# ruff: noqa: ASYNC221, ASYNC230 - a test's loop has nothing else to do while it looks at a file

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from laneway.core.records.run import Claimed
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.raw_file import locked
from tests.support.invariants import check_invariants

PROCESS = Path(__file__).with_name("other_process.py")


@pytest.fixture
def patience() -> float:
    return 0.2


def ids(claimed: list[Claimed]) -> list[str]:
    return [run.id for run in claimed]


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
            # It keeps the kernel lock while it waits, so the process that has just committed cannot overtake it.
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
    assert (await other.depths()).runs == {"succeeded": 40}
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


async def tidied_up(store: SQLiteStore) -> None:
    """Wait until the store's writer has done the work that follows its answers."""
    busy = store.access.runtime.writer.busy
    await asyncio.to_thread(busy.acquire)
    busy.release()


async def test_looking_sees_what_others_wrote_and_nothing_else(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    other = SQLiteStore(path, clock)
    await other.open()
    await tidied_up(store)
    store.look()
    assert not store.look()

    await other.submit([new_run("a")])
    assert store.look()
    assert not store.look()

    await store.get("a")
    await store.submit([new_run("b")])
    await tidied_up(store)
    assert not store.look()
    await other.close()


async def test_the_first_look_of_a_store_sees_nothing_if_nothing_happened_since_it_was_opened(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    await store.submit([new_run("a")])  # now the first connection is open, and has not read yet
    await tidied_up(store)
    assert not store.look()

    other = SQLiteStore(path, clock)
    await other.submit([new_run("b")])
    assert store.look()
    await other.close()


async def test_a_socket_of_a_dead_process_is_removed_by_the_next(store: SQLiteStore) -> None:
    folder = store.access.runtime._folder
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
    monkeypatch.setattr("laneway.stores.sqlite.wake_sockets._PATH_LIMIT", 1)
    store, other = SQLiteStore(path, clock), SQLiteStore(path, clock)
    hand = await Hand(store).register()
    await hand.rest()
    await tidied_up(store)
    store.look()

    await other.submit([new_run("a")])

    assert hand.woken == 0
    assert store.look()
    assert ids((await hand.rest()).claimed) == ["a"]
    await store.close()
    await other.close()


# Other processes


@contextmanager
def process(place: Path | str, act: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", str(PROCESS), str(place), act]
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
    assert (await store.depths()).runs == {"succeeded": 400}
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
    folder = store.access.runtime._folder.path

    mode = folder.stat().st_mode & 0o777
    assert mode == 0o700
    assert all(len(os.fsencode(item)) < 104 for item in folder.iterdir())
    stop()
    asyncio.run(store.close())
    assert not folder.exists()
