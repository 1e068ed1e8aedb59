"""The other process of a test: `python other_process.py STORE ACT`. It prints a word per line."""

import asyncio
import os
import signal
import sys
import threading
import time

from laneway.stores.postgres.store import PostgresStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import Hand, new_run, new_runs


class RealClock:
    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - that is how it talks


async def rest(store: SQLiteStore | PostgresStore) -> None:
    """Wait idle for a wake-up, then claim."""
    hand = await Hand(store, "sleeper").register()
    await hand.rest()
    say("resting")
    say("woken" if await hand.hears(30) else "missed")
    say(*[run.id for run in await hand.claim(10)])


async def lend(store: SQLiteStore | PostgresStore) -> None:
    """Rest and lend the next step, again and again; say what it brings."""
    hand = await Hand(store, "lender").register()
    while True:
        await hand.offer_step()
        say("lent")
        await hand.hears(30)
        claimed = await hand.claim()
        say(*[run.id for run in claimed])
        await hand.succeed(*claimed)


async def lend_and_fork(store: SQLiteStore | PostgresStore) -> None:
    """Lend the next step, then have a child that says who it is, once it has begun, and does nothing."""
    hand = await Hand(store, "lender").register()
    await hand.offer_step()
    say("lent")
    if os.fork() == 0:
        say(os.getpid())  # and not its parent, who may know before the child has let go of what it was born with
        signal.pause()
    await asyncio.sleep(60)


async def watch(store: SQLiteStore | PostgresStore) -> None:
    """Print when another process wrote events."""
    heard = threading.Event()
    store.watch(heard.set)
    say("watching")
    say("heard" if await asyncio.to_thread(heard.wait, 30) else "missed")


async def work(store: SQLiteStore | PostgresStore) -> None:
    """Execute everything, and print the runs."""
    hand = await Hand(store, f"worker-{os.getpid()}").register()
    say("ready")
    sys.stdin.readline()
    while claimed := await hand.claim(7):
        say(*[run.id for run in claimed])
        await hand.succeed(*claimed)
    await hand.leave()


async def submit(store: SQLiteStore | PostgresStore) -> None:
    """Submit in small batches."""
    say("ready")
    sys.stdin.readline()
    for batch in range(20):
        await store.submit(new_runs(10, f"p{os.getpid()}-{batch:02d}"))


async def fork(store: SQLiteStore | PostgresStore) -> None:
    """Use the store, fork, and use it on both sides."""
    await store.submit([new_run("before")])
    child = os.fork()
    if child == 0:
        # The child's loop is a copy of its parent's, so it takes a new one in a new thread, and never comes back.
        thread = threading.Thread(target=lambda: asyncio.run(in_the_child(store)))
        thread.start()
        thread.join()
    await store.submit([new_run("parent")])
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    runs = [await store.get(name) for name in ("before", "parent", "child")]
    say("status", status, *sorted(run.number for run in runs))


async def in_the_child(store: SQLiteStore | PostgresStore) -> None:
    try:
        await store.submit([new_run("child")])
        await store.close()
    except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as its parent
        os._exit(1)
    os._exit(0)


async def main(path: str, act: str) -> None:
    store = PostgresStore(path) if "://" in path else SQLiteStore(path, RealClock())
    await store.open()
    acts = {"rest": rest, "watch": watch, "work": work, "submit": submit, "fork": fork}
    await (acts | {"lend": lend, "lend_and_fork": lend_and_fork})[act](store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
