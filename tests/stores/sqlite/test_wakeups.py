"""How wake-ups of other processes reach a SQLite store: on the loop of the worker, and on a thread for watchers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.sqlite.wake_sockets import WORKERS, SocketFolder
from laneway.testing import FakeClock, Hand, new_run


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "laneway-sqlite-listener"]


def sockets(path: Path) -> list[str]:
    folder = SocketFolder(path).path
    return sorted(socket.name[0] for socket in folder.iterdir()) if folder.exists() else []


class Seen:
    """A worker's bell that tells on which thread it was rung."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.rung = threading.Event()

    def __call__(self) -> None:
        self.threads.append(threading.get_ident())
        self.rung.set()


async def resting(store: SQLiteStore, name: str = "hand") -> tuple[Hand, Seen]:
    hand, seen = Hand(store, name), Seen()
    await store.register(hand.incarnation, seen)
    await hand.rest()
    return hand, seen


async def test_a_worker_is_woken_on_its_own_loop_with_no_thread_in_between(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    other = SQLiteStore(path, clock)
    hand, seen = await resting(store)

    await other.submit([new_run("a")])
    assert await asyncio.to_thread(seen.rung.wait, 5)

    assert seen.threads == [threading.get_ident()]
    assert threads() == []
    assert [run.id for run in (await hand.rest()).claimed] == ["a"]
    await other.close()


async def test_watchers_are_told_from_a_thread(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    other, told = SQLiteStore(path, clock), threading.Event()
    stop = store.watch(told.set)
    hand = await Hand(other).register()

    await other.submit([new_run("a")])
    await hand.succeed(*await hand.claim(1))

    assert await asyncio.to_thread(told.wait, 5)
    assert threads() == ["laneway-sqlite-listener"]
    stop()
    await other.close()


async def test_workers_on_two_loops_are_each_woken_on_their_own(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    other, ready, done, heard = SQLiteStore(path, clock), threading.Event(), threading.Event(), Seen()

    async def rest_elsewhere() -> None:
        nonlocal heard
        _, heard = await resting(store, "elsewhere")
        ready.set()
        await asyncio.to_thread(done.wait, 10)

    elsewhere = threading.Thread(target=lambda: asyncio.run(rest_elsewhere()))
    elsewhere.start()
    assert await asyncio.to_thread(ready.wait, 5)
    _, seen = await resting(store, "here")
    assert sockets(path) == [WORKERS, WORKERS]

    await other.submit([new_run("a"), new_run("b")])
    assert await asyncio.to_thread(seen.rung.wait, 5)
    assert await asyncio.to_thread(heard.rung.wait, 5)

    assert set(seen.threads) == {threading.get_ident()}
    assert set(heard.threads) == {elsewhere.ident}
    done.set()
    await asyncio.to_thread(elsewhere.join)
    await other.close()


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_what_a_closed_loop_left_is_closed_with_the_next_worker(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)

    async def work(close: Callable[[], bool]) -> list[str]:
        await resting(store)
        found = sockets(path)
        if close():
            await store.close()
        return found

    assert asyncio.run(work(lambda: False)) == [WORKERS]
    assert asyncio.run(work(lambda: True)) == [WORKERS]
    assert sockets(path) == []


async def test_a_store_that_is_closed_leaves_nothing_with_the_loop(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await resting(store)
    [socket] = store.access.runtime._for_wake_ups.values()
    assert socket is not None
    number = socket._socket.fileno()

    await store.close()

    assert socket._socket.fileno() == -1
    assert not asyncio.get_running_loop().remove_reader(number)
    assert sockets(path) == []


async def test_one_whose_bell_raises_is_woken_again(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    other, rung, hand = SQLiteStore(path, clock), threading.Semaphore(0), Hand(store)

    def raises() -> None:
        rung.release()
        raise ValueError("a bell that is broken")

    await store.register(hand.incarnation, raises)
    for name in ("a", "b"):
        await hand.rest()
        await other.submit([new_run(name)])
        assert await asyncio.to_thread(rung.acquire, timeout=5)
        await hand.succeed(*(await hand.rest()).claimed)
    await other.close()
