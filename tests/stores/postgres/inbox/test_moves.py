"""Submissions inside a caller's transaction, while the store has a part in a move."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from laneway import Scheduler
from laneway.errors import StoreMoved
from laneway.ports.moves import Freeze, Shut
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.store import PostgresStore

ELSEWHERE = "redis://elsewhere"


def greet(name: str) -> str:
    return name


@pytest.fixture
async def app(postgres_url: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(postgres_url) as app:
        app.task(greet)
        await app.open()
        yield app


async def test_what_was_posted_before_a_move_began_is_taken_in_and_nothing_after_it(
    app: Scheduler, postgres_url: str
) -> None:
    store = PostgresStore(postgres_url)
    with psycopg.connect(Address.parse(postgres_url).conninfo, autocommit=True) as link:
        with link.transaction():
            receipt = await app.submit("greet", {"name": "ann"}, connection=link)
            await store.move(Shut("move", ELSEWHERE))
            assert (await store.move(Freeze("move"))).leases > 0  # a caller's transaction is open

        with pytest.raises(StoreMoved) as refused:
            await app.submit("greet", {"name": "bob"}, connection=link)
    assert refused.value.where == ELSEWHERE
    assert (await app.get(receipt)).state == "pending"
    assert len(await app.runs()) == 1
    assert (await store.move(Freeze("move"))).leases == 0
    await store.close()
