"""How many instructions a Redis server spends on a run: what a busy machine cannot blur.

    python -m bench.instructions

It needs `valgrind`, under which the server is some fifty times slower, and takes half a minute. docs/redis.md shows
what it prints.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from bench.growth import DONE, new_run
from laneway.core.policy import Lane
from laneway.core.run import NewRun
from laneway.stores.redis import RedisStore
from laneway.testing.hand import Hand
from laneway.testing.servers import ValkeyServer, valkey_server
from laneway.testing.servers.binaries import server_binary

BATCH, BATCHES, ALONE = 100, 10, 200
BEFORE = 1000  # runs that have finished: what is small a server keeps in another way
DAY = 86_400 * 1_000_000
KINDS: dict[str, Callable[[int], dict[str, object]]] = {
    "plain run": lambda n: {},
    "run of one of 100 users": lambda n: {"user": f"user-{n % 100}"},
    "run with user, priority and session": lambda n: {
        "user": f"user-{n % 100}",
        "session": f"session-{n}",
        "priority": (0, 5, 10)[n % 3],
    },
}


def main() -> int:
    """Print the table."""
    if shutil.which("valgrind") is None:
        print("this needs valgrind, which is not here (apt-get install valgrind)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="laneway-instructions-") as folder:
        os.environ["LANEWAY_TEST_REDIS_SERVER"] = str(counted_server(Path(folder)))
        with valkey_server() as server:
            asyncio.run(measure(Counter(server, Path(folder))))
    return 0


def counted_server(folder: Path) -> Path:
    """Return a program that starts the server under valgrind."""
    program = folder / "counted-server"
    binary, output = server_binary(), folder / "counts"
    program.write_text(f'#!/bin/sh\nexec valgrind --tool=callgrind -q --callgrind-out-file={output} {binary} "$@"\n')
    program.chmod(0o755)
    return program


class Counter:
    """Counts what the server executes."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        self.url, self._pid, self._folder, self._dumps = f"{server.url}?timeout=60", server.pid, folder, 0

    async def per_run(self, work: Callable[[], Awaitable[None]], runs: int) -> float:
        """Return how many instructions `work` takes of the server, in thousands per run."""
        self._count()
        await work()
        return self._count() / runs / 1000

    def _count(self) -> int:
        """Return the instructions since this was asked last."""
        self._dumps += 1
        subprocess.run(["callgrind_control", "-d", str(self._pid)], check=True, capture_output=True)
        text = (self._folder / f"counts.{self._dumps}").read_text(encoding="utf-8")
        found = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
        assert found is not None, "callgrind has written no total"
        return int(found[1])


async def measure(counter: Counter) -> None:
    store = RedisStore(counter.url)
    await store.open()
    await store.declare_lanes([Lane("main", limit=1_000_000)])
    hand = await Hand(store, "hand", tasks=["noop"], lease=DAY).register()
    await finish(store, hand, BEFORE)
    print("| thousands of the server's instructions | |\n|---|---|")
    for kind, more in KINDS.items():
        batches = [[made(more(n)) for n in range(first, first + BATCH)] for first in range(0, BATCHES * BATCH, BATCH)]
        await store.submit(batches[0])

        async def submit(batches: list[list[NewRun]] = batches) -> None:
            for batch in batches[1:]:
                await store.submit(batch)

        accepting = await counter.per_run(submit, (BATCHES - 1) * BATCH)
        claimed = await hand.claim(BATCH)

        async def step() -> None:
            nonlocal claimed
            for _ in range(BATCHES - 1):
                results = [hand.result(run, DONE) for run in claimed]
                claimed = (await hand.step(results=results, room=BATCH)).claimed

        stepping = await counter.per_run(step, (BATCHES - 1) * BATCH)
        await hand.settle(claimed, DONE)
        print(
            f"| accepting a {kind} | {accepting:,.0f} |\n| claiming and settling a {kind} | {stepping:,.0f} |",
            flush=True,
        )

    async def submit_alone() -> None:
        for _ in range(ALONE):
            await store.submit([made({})])

    async def step_for_nothing() -> None:
        for _ in range(ALONE):
            await hand.step(room=0)

    print(f"| a submission that comes alone | {await counter.per_run(submit_alone, ALONE):,.0f} |")
    print(f"| a step with nothing to do | {await counter.per_run(step_for_nothing, ALONE):,.0f} |")
    await store.close()


async def finish(store: RedisStore, hand: Hand, runs: int) -> None:
    """Let so many runs have been executed before anything is counted."""
    await store.submit([made({}) for _ in range(runs)])
    while claimed := await hand.claim(BATCH):
        await hand.settle(claimed, DONE)


def made(more: dict[str, object]) -> NewRun:
    """Return a submission like those of the other benchmarks."""
    return msgspec.structs.replace(new_run(), **more)


if __name__ == "__main__":
    sys.exit(main())
