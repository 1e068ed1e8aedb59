"""Connections to a PostgreSQL store that are cut around each COMMIT: the call has its effect once.

The store is compared, row by row, with one of the same calls over a connection that held.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
import pytest

from laneway.core.records.run import Receipt
from laneway.errors import StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect_bare, empty_schema
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock, Hand
from laneway.testing.servers import postgres_server
from tests.support.invariants import check_invariants
from tests.system.faults import store_calls
from tests.system.faults.postgres_proxy import PostgresProxy, postgres_proxy_to
from tests.system.faults.proxy import Cut
from tests.system.faults.store_calls import CASES, SUBMISSIONS, TOLD_ONCE, Call, Scene

pytestmark = pytest.mark.system

Case = Any  # a function of `store_calls`


@dataclass
class Held:
    """A call over a connection that holds: the tables before and after it, its answer, and its number of COMMITs."""

    before: list[tuple[str, str]]
    after: list[tuple[str, str]]
    answer: object
    calls: int


@dataclass
class Lines:
    """A server behind a line that can be cut, and a line that holds."""

    proxy: PostgresProxy
    direct: ServerConnection
    address: Address

    def __post_init__(self) -> None:
        self._held: dict[Case, Held] = {}
        self._query: psycopg.sql.Composed | None = None

    @asynccontextmanager
    async def scene(self, case: Case) -> AsyncIterator[tuple[PostgresStore, Call]]:
        """Set a case's scene in an empty schema."""
        empty_schema(self.direct, self.address)
        clock = FakeClock()
        store = PostgresStore(self.proxy.url_of("postgres"), clock)
        try:
            yield store, await case(await Scene.set_up(store, clock))
        finally:
            self.proxy.plan.clear()
            await store.close()

    async def held(self, case: Case) -> Held:
        """Return the case's call over a connection that holds."""
        if case not in self._held:
            async with self.scene(case) as (_, call):
                before, calls = self.picture(), self.proxy.calls
                answer = await call()
                self._held[case] = Held(before, self.picture(), answer, self.proxy.calls - calls)
        return self._held[case]

    def picture(self) -> list[tuple[str, str]]:
        """Return all that the tables hold, but where a process listens and numbers that are a sequence's."""
        query = (
            "SELECT relname, coalesce(array_agg(attname) FILTER (WHERE attidentity <> ''), '{}')::text[] FROM pg_class"
            " JOIN pg_attribute ON attrelid = pg_class.oid WHERE relnamespace = 'laneway'::regnamespace"
            " AND relkind = 'r' AND relname NOT IN ('layout', 'watcher') GROUP BY 1 ORDER BY 1"
        )
        if self._query is None:
            parts = [_rows_of(name, counted) for name, counted in self.direct.execute(query)]
            self._query = psycopg.sql.SQL("{} ORDER BY 1, 2").format(psycopg.sql.SQL(" UNION ALL ").join(parts))
        return [(name, row) for name, row in self.direct.execute(self._query)]


def _rows_of(table: str, counted: list[str]) -> psycopg.sql.Composed:
    query = psycopg.sql.SQL("SELECT {}::text, (to_jsonb(it) - {}::text[])::text FROM laneway.{} it")
    return query.format(table, psycopg.sql.Literal([*counted, "socket"]), psycopg.sql.Identifier(table))


@pytest.fixture(scope="module")
def lines() -> Iterator[Lines]:
    with postgres_server() as server, postgres_proxy_to(server.port) as proxy:
        address = Address.parse(server.url)
        connection = connect_bare(address)
        store = PostgresStore(server.url)
        asyncio.run(store.open())
        asyncio.run(store.close())
        yield Lines(proxy, connection, address)
        connection.close()


@pytest.mark.parametrize("cut", Cut, ids=lambda cut: cut.name.lower())
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_a_call_that_is_cut_off_has_its_effect_once(lines: Lines, case: Case, cut: Cut) -> None:
    held = await lines.held(case)
    before, kept, expected = held.before, held.after, held.answer
    assert held.calls >= 1
    assert kept != before or case is store_calls.open_again, "the call has no effect"

    for nth in range(held.calls):
        # Once: the writer repeats it, and the caller does not notice.
        async with lines.scene(case) as (store, call):
            lines.proxy.plan.extend([*[None] * nth, cut])
            got = await call()

            assert not lines.proxy.plan, "the call was not cut"
            assert lines.picture() == kept
            if case in SUBMISSIONS:
                assert without_places(got) == without_places(expected)
            elif cut is Cut.BEFORE or case not in TOLD_ONCE:
                assert got == expected

        # Twice: the caller gets an error, and repeats it.
        async with lines.scene(case) as (store, call):
            lines.proxy.plan.extend([*[None] * nth, cut, cut])
            with pytest.raises(StoreUnavailable) as unavailable:
                await call()
            assert (lines.picture() == before) is (cut is Cut.BEFORE) or nth or case is store_calls.open_again
            await call()

            assert unavailable.value.maybe_done
            assert lines.picture() == kept
            await check_invariants(store)


async def test_a_server_that_is_not_reached_has_done_nothing(lines: Lines) -> None:
    async with lines.scene(store_calls.submit) as (store, call):
        before = lines.picture()
        await store.close()
        await store.open()
        store.access.runtime.writer.close_connection()
        lines.proxy.open = False
        try:
            with pytest.raises(StoreUnavailable) as unavailable:
                await call()
        finally:
            lines.proxy.open = True

        assert not unavailable.value.maybe_done
        assert lines.picture() == before


@pytest.mark.parametrize("times", [1, 2])
async def test_who_rests_in_the_same_process_is_woken_though_the_answer_was_cut_off(lines: Lines, times: int) -> None:
    async with lines.scene(store_calls.submit) as (store, call):
        hand = await Hand(store, "resting").register()
        await hand.rest()
        before = hand.woken
        lines.proxy.plan.extend([Cut.AFTER] * times)
        with contextlib.suppress(StoreUnavailable):
            await call()

        assert not lines.proxy.plan
        assert hand.woken > before


def without_places(receipts: Any) -> list[Receipt]:
    """Return receipts without positions: a repeat does not return them."""
    return [msgspec.structs.replace(receipt, position=None) for receipt in receipts]
