"""Bursts of submissions to a SQLite file by processes that are killed in the middle."""

# ruff: noqa: ASYNC220 - a test's loop has nothing else to do while another process is killed

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from laneway import Scheduler
from tests.support.invariants import check_invariants
from tests.system.load.burst_producer import noop

pytestmark = pytest.mark.system
TIMES = 40 if os.environ.get("LANEWAY_CHAOS") == "1" else 5
PROGRAM = Path(__file__).parents[1] / "load" / "burst_producer.py"


async def killed_burst(path: Path, seconds: float) -> list[str]:
    """Let callers submit for so long, then kill their process; return whom it gave receipts for."""
    with subprocess.Popen([sys.executable, PROGRAM, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = await asyncio.to_thread(process.stdout.readline)
        killing = asyncio.get_running_loop().call_later(seconds, process.kill)
        others = await asyncio.to_thread(process.stdout.readlines)
        killing.cancel()
        return [line.strip() for line in (first, *others)]


@pytest.mark.timeout(600)
async def test_whoever_is_killed_in_a_burst_loses_no_run_that_has_a_receipt(tmp_path: Path) -> None:
    chance, path, given = random.Random(), tmp_path / "laneway.db", set[str]()
    app = Scheduler(f"sqlite:///{path}", lanes=None)
    app.task(noop)
    async with app:
        bursts = [killed_burst(path, chance.uniform(0.02, 0.1)) for _ in range(TIMES)]
        # Two at a time, so that one may find what another has left.
        for pair in zip(bursts[::2], bursts[1::2], strict=False):
            for receipts in await asyncio.gather(*pair):
                given.update(receipts)
            store = await app.open()
            assert (await store.depths()).runs["pending"] >= len(given)
        for rest in bursts[2 * (TIMES // 2) :]:
            given.update(await rest)

        store = await app.open()
        examination = await store.examine()
        assert (examination.findings, examination.damage) == ([], [])
        before = (await store.depths()).runs
        settled = await app.drain()
        assert settled == {"succeed": before["pending"]}
        for run_id in given:
            assert (await app.get(run_id)).state.value == "succeeded"
        await check_invariants(store, logs=False)
    print(f"{len(given)} receipts, {before['pending']} runs")  # noqa: T201 - the size of it is worth seeing
    assert len(given) > 100 * TIMES
