"""A repair corrects the runs that sessions hold back, and holds no admitted run back again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest

from laneway.core.records.policy import SessionPolicy
from laneway.core.records.run import RunFilter
from laneway.ports.control import Answer, Pause, Resume
from laneway.ports.store import Store
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_runs
from tests.stores.sqlite.raw_file import edit
from tests.support.invariants import all_runs, check_drains, check_invariants

Edit = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
async def damaged(
    request: pytest.FixtureRequest, path: Path, clock: FakeClock, postgres_url: str, postgres_database: str
) -> AsyncIterator[tuple[Store, Edit]]:
    """Return a store, and a function that changes its tables directly."""
    schema = Address.parse(postgres_url).schema

    def edit_postgres(statement: str) -> None:
        with psycopg.connect(postgres_database) as link:
            link.execute(f"SET search_path TO {schema}".encode())
            link.execute(statement.encode())

    is_file = request.param == "sqlite"
    store: Store = SQLiteStore(path, clock) if is_file else PostgresStore(postgres_url, clock)
    await store.open()
    yield store, (lambda statement: edit(path, statement)) if is_file else edit_postgres
    await store.close()


async def in_every_state(store: Store, *, passes: bool) -> Hand:
    """Let a session pass eight places with runs that end, wait, are paused, put off, executed or about to be."""
    hand = await Hand(store).register()
    policy = SessionPolicy(max_concurrent=9, cap=100, pass_on_retry=passes)
    await store.submit(new_runs(14, "run", session="chat", policy=policy))
    runs = [run for _ in range(7) for run in await hand.claim()]
    await store.change_run("stop", "run-00002", Pause())
    await hand.succeed(runs[0], runs[4])
    await hand.wait(runs[1], "why?")
    await hand.pause(runs[2])
    await hand.snooze(runs[3], delay=3)
    await store.change_run("pause", "run-00007", Pause())
    [state] = await store.sessions()
    assert (state.active, state.queued) == (5, 7)
    await check_invariants(store)
    return hand


@pytest.mark.parametrize("passes", [False, True])
async def test_a_session_whose_row_is_lost_is_set_right(
    damaged: tuple[Store, Edit], clock: FakeClock, passes: bool
) -> None:
    store, edit = damaged
    hand = await in_every_state(store, passes=passes)
    states = {run.id: run.state for run in await all_runs(store)}
    edit("DELETE FROM session")

    assert await store.check(repair=True) != []

    assert await store.check() == []
    assert {run.id: run.state for run in await all_runs(store)} == states
    await hand.step()  # admits the runs that are due
    await check_invariants(store)
    await store.change_run("resume", "run-00002", Resume())
    await store.change_run("again", "run-00007", Resume())
    await store.change_run("answer", "run-00001", Answer('"so"'))
    await store.submit(new_runs(2, "new", session="chat"))
    await check_invariants(store)
    await check_drains(store, clock)


async def test_an_admitted_run_that_was_lost_does_not_wait_for_itself(
    damaged: tuple[Store, Edit], clock: FakeClock
) -> None:
    store, edit = damaged
    await store.submit(new_runs(3, "run", session="chat"))
    edit("DELETE FROM ready")

    found = await store.check(repair=True)

    assert found[0].what == "run run-00000"
    assert await store.check() == []
    assert len(await store.runs(RunFilter(session="chat"), limit=9)) == 3
    await check_drains(store, clock)
