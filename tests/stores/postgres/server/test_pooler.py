"""Through a pooler with a connection per transaction: more clients than connections, and everything works."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from laneway import Context, Scheduler, SessionPolicy
from laneway.stores.postgres.server.address import Address
from laneway.testing.servers import PostgresServer, postgres_server
from tests.stores.postgres.pooler import Pooler, pooler

SESSIONS, MESSAGES, CONNECTIONS = 5, 24, 2


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def few(server: PostgresServer) -> Iterator[Pooler]:
    found = psycopg.conninfo.conninfo_to_dict(Address.parse(server.url).conninfo)
    with pooler("127.0.0.1", server.port, str(found["user"]), str(found["dbname"]), CONNECTIONS) as few:
        yield few


@pytest.mark.timeout(120)
async def test_runs_are_submitted_executed_and_kept_in_order(server: PostgresServer, few: Pooler) -> None:
    url = f"{server.url.replace(f':{server.port}/', f':{few.port}/')}?pooled=yes"
    started: dict[str, list[int]] = {f"chat-{nth}": [] for nth in range(SESSIONS)}
    active: Counter[str] = Counter()

    async def speak(nth: int, *, ctx: Context) -> int:
        assert ctx.session is not None
        active[ctx.session] += 1
        assert active[ctx.session] == 1
        started[ctx.session].append(nth)
        await asyncio.sleep(0.002)
        active[ctx.session] -= 1
        return nth

    async with Scheduler(url) as one, Scheduler(url) as other:
        for app in (one, other):
            app.task(name="speak")(speak)

        async def talk(session: str) -> list[int]:
            given: dict[str, Any] = {"session": session, "session_policy": SessionPolicy(cap=MESSAGES)}
            receipts = [await one.submit("speak", {"nth": nth}, **given) for nth in range(MESSAGES)]
            return [await other.result(receipt, timeout=60) for receipt in receipts]

        async with one.running(), other.running():
            said = await asyncio.gather(*map(talk, started))

        assert said == [list(range(MESSAGES))] * SESSIONS
        assert started == {session: list(range(MESSAGES)) for session in started}
        assert await (await one.open()).check() == []
    # They were really shared: there were more clients than connections, and some had both.
    assert len(few.lent) > CONNECTIONS
    assert any(len(lent) == CONNECTIONS for lent in few.lent.values())
