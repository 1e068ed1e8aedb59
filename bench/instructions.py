"""Count the instructions that a Redis server spends on a run: a figure that other load does not change.

    python -m bench.instructions

It needs `valgrind`, under which the server is some fifty times slower, and takes a minute. docs/redis.md shows
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
from typing import NamedTuple

import msgspec

from bench.growth import DONE, new_run
from laneway.core.records.policy import Lane, SessionPolicy
from laneway.core.records.run import Claimed, NewRun
from laneway.stores.redis.store import RedisStore
from laneway.testing.hand import Hand
from laneway.testing.servers import ValkeyServer, valkey_server
from laneway.testing.servers.binaries import server_binary

BATCH, BATCHES, ALONE = 100, 10, 200
BEFORE = 1000  # finished runs: a server stores small collections in another form
DAY = 86_400 * 1_000_000
WIDE = Lane("main", limit=1_000_000)


class Kind(NamedTuple):
    """Runs that are counted: the fields of the nth one, their lane, and the number of batches."""

    more: Callable[[int], dict[str, object]]
    lane: Lane = WIDE
    batches: int = BATCHES


# The last kind is that of `limits.redis`: each run is admitted when another one ends, parked, and unparked.
KINDS = {
    "plain run": Kind(lambda n: {}),
    "run of one of 100 users": Kind(lambda n: {"user": f"user-{n % 100}"}),
    "run with user, priority and session": Kind(
        lambda n: {"user": f"user-{n % 100}", "session": f"session-{n}", "priority": (0, 5, 10)[n % 3]}
    ),
    "run of one of 50 users at their caps, with busy sessions": Kind(
        lambda n: {
            "user": f"user-{n % 50}",
            "session": f"session-{n % 200}",
            "priority": (0, 5, 10)[n // 200 % 3],
            "arrival": SessionPolicy(cap=1_000_000).arrival(),
        },
        Lane("main", limit=BATCH, per_user=BATCH // 50),
        3 * BATCHES,
    ),
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
    """Counts the instructions of the server."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        self.url, self._pid, self._folder, self._dumps = f"{server.url}?timeout=60", server.pid, folder, 0

    async def per_run(self, work: Callable[[], Awaitable[None]], runs: int) -> float:
        """Return how many instructions `work` takes of the server, in thousands per run."""
        self._count()
        await work()
        return self._count() / runs / 1000

    def _count(self) -> int:
        """Return the instructions since the last call."""
        self._dumps += 1
        subprocess.run(["callgrind_control", "-d", str(self._pid)], check=True, capture_output=True)
        text = (self._folder / f"counts.{self._dumps}").read_text(encoding="utf-8")
        found = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
        assert found is not None, "callgrind has written no total"
        return int(found[1])


async def measure(counter: Counter) -> None:
    store = RedisStore(counter.url)
    await store.open()
    hand = await Hand(store, "hand", tasks=["noop"], lease=DAY).register()
    await finish(store, hand, BEFORE)
    print("| thousands of the server's instructions | |\n|---|---|")
    for name, kind in KINDS.items():
        await store.declare_lanes([kind.lane])
        numbers = range(0, kind.batches * BATCH, BATCH)
        batches = [[made(kind.more(n)) for n in range(first, first + BATCH)] for first in numbers]
        await store.submit(batches[0])

        async def submit(batches: list[list[NewRun]] = batches) -> None:
            for batch in batches[1:]:
                await store.submit(batch)

        accepting = await counter.per_run(submit, (kind.batches - 1) * BATCH)
        claimed = await hand.claim(BATCH)

        async def step() -> None:
            nonlocal claimed
            for _ in range(BATCHES - 1):
                results = [hand.result(run, DONE) for run in claimed]
                claimed = (await hand.step(results=results, room=BATCH)).claimed
                assert len(claimed) == BATCH, "there were fewer runs to claim than are counted"

        stepping = await counter.per_run(step, (BATCHES - 1) * BATCH)
        await settle_all(hand, claimed)
        print(
            f"| accepting a {name} | {accepting:,.0f} |\n| claiming and settling a {name} | {stepping:,.0f} |",
            flush=True,
        )

    await store.declare_lanes([WIDE])

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
    await store.declare_lanes([WIDE])
    await store.submit([made({}) for _ in range(runs)])
    await settle_all(hand, await hand.claim(BATCH))


async def settle_all(hand: Hand, claimed: list[Claimed]) -> None:
    """Let these succeed, and all that can be claimed then."""
    while claimed:
        await hand.settle(claimed, DONE)
        claimed = await hand.claim(BATCH)


def made(more: dict[str, object]) -> NewRun:
    """Return a submission like those of the other benchmarks."""
    return msgspec.structs.replace(new_run(), **more)


if __name__ == "__main__":
    sys.exit(main())
