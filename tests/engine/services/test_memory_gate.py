"""The memory gate: nothing starts while memory is short, nothing stops because of it, and it fails open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway import BadSetting, Scheduler
from laneway.core.records.run import Gate
from laneway.core.records.states import RunState
from laneway.engine.services.memory_gate import MemoryGate, Sample, sample
from laneway.engine.worker import worker
from laneway.ports.clock import Clock
from laneway.settings import Settings
from laneway.testing import FakeClock
from tests.support.waits import as_time_passes, soon, turns

ENOUGH, LITTLE = Sample(2000, 1.0), Sample(100, 1.0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    """What the machine says from now on: the last one holds."""
    said = [ENOUGH]

    def gate(clock: Clock, least: float, most: float, changed: Callable[[], None]) -> MemoryGate:
        return MemoryGate(clock, least, most, changed, lambda: said[-1])

    monkeypatch.setattr(worker, "MemoryGate", gate)
    return said


async def test_nothing_starts_while_memory_is_short_and_what_runs_goes_on(
    url: str, clock: FakeClock, machine: list[Sample]
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    async with Scheduler(url, clock=clock, min_memory=768, lease=600) as app:

        @app.task
        async def work() -> str:
            begun.set()
            await may_end.wait()
            return "done"

        async with app.running():
            first = await work.submit()
            await soon(begun.wait())
            machine.append(LITTLE)
            await clock.advance(30)
            second = await work.submit()
            await turns()
            may_end.set()
            result = await app.result(first, timeout=10)
            waiting = await app.get(second)
            reasons = await app.why(second)
            machine.append(ENOUGH)
            run = await as_time_passes(clock, app.wait(second), step=1)

    assert result == "done"
    assert waiting.state is RunState.PENDING
    assert [reason.gate for reason in reasons] == [Gate.MEMORY_SHORT]
    assert run.state is RunState.SUCCEEDED


async def test_draining_is_not_gated(url: str, clock: FakeClock, machine: list[Sample]) -> None:
    machine.append(LITTLE)
    async with Scheduler(url, clock=clock, min_memory=768, lease=600) as app:
        app.task(name="work")(lambda: "done")
        receipt = await app.submit("work")
        await app.drain()

        assert await app.result(receipt) == "done"


@pytest.mark.parametrize(
    ("found", "short"),
    [
        (Sample(767, 0), True),
        (Sample(768, 0), False),
        (Sample(2000, 41), True),
        (Sample(2000, 40), False),
        (Sample(None, None), False),
        (Sample(None, 99), True),
        (Sample(100, None), True),
    ],
)
def test_it_closes_by_memory_or_pressure_and_fails_open(clock: FakeClock, found: Sample, short: bool) -> None:
    gate = MemoryGate(clock, 768, 40, lambda: None, lambda: found)

    gate.look()

    assert gate.short is short


def test_a_lost_sample_opens_it_again_and_whoever_waits_is_told(clock: FakeClock) -> None:
    samples, told = [LITTLE, LITTLE, Sample()], []
    gate = MemoryGate(clock, 768, 0, lambda: told.append(gate.short), lambda: samples.pop(0))

    for _ in range(3):
        gate.look()

    assert told == [True, False]


async def test_it_is_said_once_in_a_quarter_of_an_hour(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    samples = [LITTLE] * 40 + [ENOUGH, LITTLE]
    gate = MemoryGate(clock, 768, 0, lambda: None, lambda: samples.pop(0))

    with caplog.at_level(logging.WARNING):
        for _ in range(42):
            gate.look()
            await clock.advance(30)

    assert [record.message for record in caplog.records] == [
        "memory is short (100 MB available, pressure 1 %): nothing new is started here"
    ] * 3


def test_a_look_reads_what_linux_says_and_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    assert sample(tmp_path) == Sample(None, None)

    (tmp_path / "pressure").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal:       8000000 kB\nMemAvailable:   2048000 kB\n", encoding="ascii")
    (tmp_path / "pressure" / "memory").write_text("some avg10=1.50 avg60=0.00\nfull avg10=9.00\n", encoding="ascii")

    assert sample(tmp_path) == Sample(2000, 1.5)


@pytest.mark.parametrize("name", ["min_memory", "max_pressure"])
def test_a_wrong_bound_is_refused(name: str) -> None:
    with pytest.raises(BadSetting, match=f"{name} is -1; it must be a number, 0 or more"):
        Settings.of({name: -1})
