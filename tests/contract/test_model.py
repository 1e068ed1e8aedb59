"""SQLite does what memory does, command by command."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.memory import MemoryStore
from laneway.stores.sqlite import SQLiteStore
from laneway.testing import FakeClock, ManyDoors
from laneway.testing.model import StoreFactory, compare_with_memory

TIMES = 10 if os.environ.get("LANEWAY_CHAOS") == "1" else 1
STEPS = 100
EXAMPLES = 106  # some more than the budget asks for, because an example may end early


def sqlite_in(folder: Path) -> StoreFactory:
    """Make SQLite stores in turn with one store object on the file and with two."""
    numbers = count()

    @asynccontextmanager
    async def opened(clock: FakeClock) -> AsyncIterator[Store]:
        number = next(numbers)
        store = ManyDoors(*(SQLiteStore(folder / f"{number}.db", clock) for _ in range(1 + number % 2)))
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return opened


@asynccontextmanager
async def memory(clock: FakeClock) -> AsyncIterator[Store]:
    yield MemoryStore(clock)


@pytest.mark.system
@pytest.mark.timeout(900 * TIMES)  # it passes in a tenth of that; making a failure small takes longer
def test_sqlite_answers_ten_thousand_random_commands_as_memory_does(tmp_path: Path) -> None:
    commands = compare_with_memory(sqlite_in(tmp_path), examples=EXAMPLES * TIMES, steps=STEPS, derandomize=TIMES == 1)

    print(f"{commands} commands compared")  # noqa: T201 - the budget is worth seeing
    assert commands >= 10_000 * TIMES


def test_memory_keeps_its_own_invariants_under_random_commands() -> None:
    assert compare_with_memory(memory, examples=30, steps=STEPS) >= 2_000
