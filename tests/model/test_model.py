"""SQLite, Redis and PostgreSQL do what memory does, command by command."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from laneway.ports.store import Store
from laneway.stores.memory.store import MemoryStore
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.redis.store import RedisStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock
from tests.model.machine import StoreFactory, compare_with_memory
from tests.stores.postgres.kept_connections import links_kept
from tests.support.many_doors import ManyDoors

TIMES = 10 if os.environ.get("LANEWAY_CHAOS") == "1" else 1
STEPS = 100
EXAMPLES = 108  # some more than the budget asks for, because an example may end early


def sqlite_in(folder: Path, empty_file: Path) -> StoreFactory:
    """Make SQLite stores in turn with one store object on the file and with two."""
    numbers = count()

    @asynccontextmanager
    async def opened(clock: FakeClock) -> AsyncIterator[Store]:
        number = next(numbers)
        path = shutil.copy(empty_file, folder / f"{number}.db")
        store = ManyDoors(*(SQLiteStore(path, clock) for _ in range(1 + number % 2)))
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return opened


def redis_at(url: str) -> StoreFactory:
    """Make Redis stores, each in a namespace of its own, in turn with one store object on it and with two."""
    numbers = count()

    @asynccontextmanager
    async def opened(clock: FakeClock) -> AsyncIterator[Store]:
        number = next(numbers)
        store = ManyDoors(*(RedisStore(f"{url}-{number}", clock) for _ in range(1 + number % 2)))
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return opened


def postgres_in(emptied_schema: Callable[[], str]) -> StoreFactory:
    """Make PostgreSQL stores, one after the other in one schema, in turn with one store object on it and with two."""
    numbers = count()

    @asynccontextmanager
    async def opened(clock: FakeClock) -> AsyncIterator[Store]:
        url = emptied_schema()
        store = ManyDoors(*(PostgresStore(url, clock) for _ in range(1 + next(numbers) % 2)))
        with links_kept():
            await store.open()
            try:
                yield store
            finally:
                await store.close()

    return opened


@asynccontextmanager
async def memory(clock: FakeClock) -> AsyncIterator[Store]:
    yield MemoryStore(clock)


# In parts, so that nobody waits for the last of them: some four thousand commands together, and in `make chaos` ten
# times as many.
in_parts = pytest.mark.parametrize("part", range(3))


def compared(factory: StoreFactory, part: int, share: int = 18) -> int:
    """Compare one part, of so many that the budget has; return how many commands that were."""
    examples = EXAMPLES * TIMES // share
    commands = compare_with_memory(factory, examples=examples, steps=STEPS, derandomize=TIMES == 1, part=part)
    print(f"{commands} commands compared")  # noqa: T201 - the budget is worth seeing
    return commands


@pytest.mark.system
@pytest.mark.timeout(900 * TIMES)  # it passes in a tenth of that; making a failure small takes longer
@in_parts
def test_sqlite_answers_random_commands_as_memory_does(tmp_path: Path, empty_file: Path, part: int) -> None:
    assert compared(sqlite_in(tmp_path, empty_file), part) >= 450 * TIMES


@pytest.mark.system
@pytest.mark.timeout(900 * TIMES)
@in_parts
def test_redis_answers_random_commands_as_memory_does(redis_url: str, part: int) -> None:
    assert compared(redis_at(redis_url), part) >= 450 * TIMES


@pytest.mark.system
@pytest.mark.timeout(900 * TIMES)
@in_parts
def test_postgres_answers_random_commands_as_memory_does(emptied_schema: Callable[[], str], part: int) -> None:
    assert compared(postgres_in(emptied_schema), part, share=21) >= 300 * TIMES


def test_memory_keeps_its_own_invariants_under_random_commands() -> None:
    # The others show it too, over thousands of commands; this one says, when they fail, whether memory is to blame.
    assert compare_with_memory(memory, examples=10, steps=STEPS) >= 700
