"""What a process does with the blocking face: `LANEWAY_STORE=URL python process.py ACT`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from laneway import Scheduler

app = Scheduler()


@app.task
async def double(x: int) -> int:
    return x * 2


@app.task
async def hang() -> None:
    await asyncio.Event().wait()


@app.task
async def ignore() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def in_child(act: str) -> int:
    """Fork; in the child do the act and leave the process the usual way; return its exit code."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        ACTS[act]()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def submit() -> None:
    """Submit, and end without closing."""
    say("accepted", app.sync.submit(double, {"x": 1}).run_id)


def submit_and_close() -> None:
    submit()
    app.sync.close()


def drain() -> None:
    say(app.sync.drain())


def fork() -> None:
    """Use it, fork, use it on both sides."""
    submit()
    say("child", in_child("submit_and_close"))
    say("child", in_child("submit"))
    submit()
    say(app.sync.drain())


def fork_while_busy() -> None:
    """Fork again and again while other threads submit and their loop works."""
    going = threading.Event()
    with ThreadPoolExecutor(4) as pool, app.sync.running():

        def hammer() -> None:
            while not going.is_set():
                app.sync.submit(double, {"x": 1})

        hammers = [pool.submit(hammer) for _ in range(4)]
        codes = [in_child("submit_and_close") for _ in range(5)]
        going.set()
        for each in hammers:
            each.result()
    say(codes)


def fork_with_an_iterator() -> None:
    """Fork with an iterator half way and inside a running block: the child hears that they are its parent's."""
    receipt = app.sync.submit(double, {"x": 1})
    with app.sync.running():
        app.sync.result(receipt)
        events = app.sync.events(receipt)
        next(events)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                next(events)
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent shall see it
                say(type(error).__name__, error)
        else:
            say("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            say([event.kind for event in events])


def exit_while_waiting(task: str = "hang") -> None:
    """End while a daemon thread waits for a result that never comes, and a worker works."""
    receipt = app.sync.submit(task)
    threading.Thread(target=app.sync.result, args=[receipt], daemon=True).start()
    threading.Thread(target=app.sync.work, daemon=True).start()
    for event in app.sync.events(receipt):
        if event.kind == "started":
            break
    say("ends")


def exit_while_stuck() -> None:
    """The same, with a handler that does not stop."""
    exit_while_waiting("ignore")


def exit_with_a_thread() -> None:
    """End the main thread while another, no daemon, still calls."""

    def last() -> None:
        threading.main_thread().join()
        submit()

    threading.Thread(target=last).start()


def interrupt() -> None:
    """Wait for a result that never comes, until Ctrl-C."""
    receipt = app.sync.submit(hang)
    threading.Thread(target=app.sync.work, daemon=True).start()
    for event in app.sync.events(receipt):
        if event.kind == "started":
            break
    try:
        say("waits")
        app.sync.result(receipt)
    except KeyboardInterrupt:
        app.sync.stop(timeout=0)
        say("interrupted", app.sync.get(receipt).state.value)


ACTS: dict[str, Callable[[], None]] = {
    act.__name__: act
    for act in (
        submit,
        submit_and_close,
        drain,
        fork,
        fork_while_busy,
        fork_with_an_iterator,
        exit_while_waiting,
        exit_while_stuck,
        exit_with_a_thread,
        interrupt,
    )
}

if __name__ == "__main__":
    ACTS[sys.argv[1]]()
