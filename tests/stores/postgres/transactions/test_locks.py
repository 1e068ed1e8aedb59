"""Locks that others take on laneway's tables hold it up, and never break it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from laneway.errors import StoreUnavailable
from laneway.ports.control import Cancel
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.store import PostgresStore
from laneway.testing.hand import new_run


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def other(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Another program, in laneway's own schema."""
    address = Address.parse(postgres_url)
    with psycopg.connect(address.conninfo, autocommit=True) as link:
        link.execute(f"SET search_path TO {address.schema}".encode())
        yield link


async def waiting_for_a_lock(link: psycopg.Connection[Any]) -> None:
    """Return when another session waits for a lock of this connection."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    while link.execute(query).fetchall() == [(0,)]:  # noqa: ASYNC110 - it is the server that knows
        await asyncio.sleep(0.01)


async def test_a_deadlock_with_another_program_is_tried_again(
    store: PostgresStore, other: psycopg.Connection[Any], postgres_url: str
) -> None:
    lock = Address.parse(postgres_url).lock

    def meet() -> None:
        # The server reports the deadlock to the store.
        other.execute("SET deadlock_timeout TO '30s'")
        with other.transaction():
            other.execute("LOCK TABLE lane IN SHARE MODE")
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(waiting_for_a_lock(other), loop).result(10)
            # Each holds a lock that the other waits for.
            other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))

    loop, locked = asyncio.get_running_loop(), asyncio.Event()
    meeting = asyncio.create_task(asyncio.to_thread(meet))
    await locked.wait()

    [receipt] = await store.submit([new_run("a")])

    await meeting
    assert receipt.outcome == "accepted"
    assert (await store.get("a")).number == 1


# A trigger of another program on these tables may fail; this one fails the first few times.
FAILS = """
CREATE SEQUENCE failures;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('failures') <= {times} THEN
        RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '{code}';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER fail AFTER INSERT ON run {when} FOR EACH ROW EXECUTE FUNCTION fail();
"""


@contextmanager
def failing(other: psycopg.Connection[Any], code: str, times: int, *, at_commit: bool) -> Iterator[None]:
    """Let the insert of a run, or its COMMIT, fail so many times."""
    fails = FAILS.format(code=code, times=times, when="DEFERRABLE INITIALLY DEFERRED" if at_commit else "")
    other.execute((fails.replace("CREATE TRIGGER", "CREATE CONSTRAINT TRIGGER") if at_commit else fails).encode())
    try:
        yield
    finally:
        other.execute("DROP FUNCTION fail CASCADE; DROP SEQUENCE failures")


@pytest.mark.parametrize("at_commit", [False, True], ids=["when it is written", "when it is committed"])
@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_what_could_not_be_serialized_is_tried_again(
    store: PostgresStore, other: psycopg.Connection[Any], code: str, *, at_commit: bool
) -> None:
    with failing(other, code, 3, at_commit=at_commit):
        [receipt] = await store.submit([new_run("a")])
        assert other.execute("SELECT last_value FROM failures").fetchall() == [(4,)]

    assert receipt.outcome == "accepted"
    assert (await store.get("a")).number == 1
    assert await store.check() == []


async def test_what_can_never_be_serialized_is_told_of_and_not_done(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    with failing(other, "40001", 100, at_commit=True), pytest.raises(StoreUnavailable) as refused:
        await store.submit([new_run("a")])

    assert "could not do a call beside those of other programs" in str(refused.value)
    assert not refused.value.maybe_done
    assert (await store.depths()).runs == {}


async def test_a_table_that_is_locked_for_too_long_is_told_of_and_nothing_is_half_done(
    postgres_url: str, store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    hasty = PostgresStore(f"{postgres_url}&timeout=0.3")
    with other.transaction():
        other.execute("LOCK TABLE ready IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match=r"for too long|in time") as refused:
            await hasty.submit([new_run("a")])
    assert not refused.value.maybe_done
    assert other.execute("SELECT count(*) FROM run").fetchall() == [(0,)]

    [receipt] = await hasty.submit([new_run("a")])
    assert receipt.outcome == "accepted"
    await hasty.close()


async def test_one_bad_piece_of_work_does_not_fail_its_neighbours(store: PostgresStore) -> None:
    """Calls at the same time share a transaction; one that fails is repeated without the others."""
    answers = await asyncio.gather(
        store.submit([new_run("a")]),
        store.change_run("call", "unknown", Cancel()),
        store.submit([new_run("b")]),
        return_exceptions=True,
    )

    assert [type(answer).__name__ for answer in answers] == ["list", "UnknownRun", "list"]
    assert sorted([(await store.get(run_id)).id for run_id in "ab"]) == ["a", "b"]
