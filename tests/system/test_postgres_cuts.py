"""Lines to the PostgreSQL store that are cut around each COMMIT: its effect is there once, whoever had to repeat it.

The store that is left behind is compared with that of the same calls over a line that held, row by row.
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

from laneway.core.run import Receipt
from laneway.errors import StoreUnavailable
from laneway.stores.postgres import PostgresStore
from laneway.stores.postgres.address import Address
from laneway.stores.postgres.connection import Link, connect_bare, empty_schema
from laneway.testing import FakeClock, Hand, check_invariants
from laneway.testing.servers import postgres_server
from tests.system import cuts
from tests.system.cuts import CASES, SUBMISSIONS, TOLD_ONCE, Call, Scene
from tests.system.postgres_proxy import PostgresProxy, postgres_proxy_to
from tests.system.proxy import Cut

pytestmark = pytest.mark.system

Case = Any  # a function of `cuts`


@dataclass
class Lines:
    """A server behind a line that can be cut, and a line that holds."""

    proxy: PostgresProxy
    direct: Link
    address: Address

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

    def picture(self) -> list[tuple[str, str]]:
        """Return all that the tables hold, but where a process listens and numbers that are a sequence's."""
        query = (
            "SELECT relname, coalesce(array_agg(attname) FILTER (WHERE attidentity <> ''), '{}')::text[] FROM pg_class"
            " JOIN pg_attribute ON attrelid = pg_class.oid WHERE relnamespace = 'laneway'::regnamespace"
            " AND relkind = 'r' AND relname NOT IN ('layout', 'watcher') GROUP BY 1 ORDER BY 1"
        )
        return [(name, row) for name, counted in self.direct.execute(query) for row in self._rows(name, counted)]

    def _rows(self, table: str, counted: list[str]) -> list[str]:
        query = psycopg.sql.SQL("SELECT (to_jsonb(it) - %s::text[])::text FROM laneway.{} it ORDER BY 1")
        found = self.direct.execute(query.format(psycopg.sql.Identifier(table)), ([*counted, "socket"],))
        return [row for (row,) in found]


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
    async with lines.scene(case) as (store, call):
        before, calls = lines.picture(), lines.proxy.calls
        expected = await call()
        calls, kept = lines.proxy.calls - calls, lines.picture()
    assert calls >= 1
    assert kept != before or case is cuts.open_again, "the call has no effect"

    for nth in range(calls):
        # Once: the writer repeats it, and nobody hears of it.
        async with lines.scene(case) as (store, call):
            lines.proxy.plan.extend([*[None] * nth, cut])
            got = await call()

            assert not lines.proxy.plan, "the call was not cut"
            assert lines.picture() == kept
            if case in SUBMISSIONS:
                assert without_places(got) == without_places(expected)
            elif cut is Cut.BEFORE or case not in TOLD_ONCE:
                assert got == expected

        # Twice: its caller hears of it, and repeats it.
        async with lines.scene(case) as (store, call):
            lines.proxy.plan.extend([*[None] * nth, cut, cut])
            with pytest.raises(StoreUnavailable) as unavailable:
                await call()
            assert (lines.picture() == before) is (cut is Cut.BEFORE) or nth or case is cuts.open_again
            await call()

            assert unavailable.value.maybe_done
            assert lines.picture() == kept
            await check_invariants(store)


async def test_a_server_that_is_not_reached_has_done_nothing(lines: Lines) -> None:
    async with lines.scene(cuts.submit) as (store, call):
        before = lines.picture()
        await store.close()
        await store.open()
        store._here.writer.let_go()
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
    async with lines.scene(cuts.submit) as (store, call):
        hand = await Hand(store, "resting").register()
        await hand.rest()
        before = hand.woken
        lines.proxy.plan.extend([Cut.AFTER] * times)
        with contextlib.suppress(StoreUnavailable):
            await call()

        assert not lines.proxy.plan
        assert hand.woken > before


def without_places(receipts: Any) -> list[Receipt]:
    """Return receipts without positions: a repeat does not tell them."""
    return [msgspec.structs.replace(receipt, position=None) for receipt in receipts]
