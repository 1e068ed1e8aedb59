"""A run submitted inside a caller's transaction is there if and only if the caller's own row is, whatever dies."""

from __future__ import annotations

import os
import random
import threading

import psycopg
import pytest

from laneway import Scheduler, StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.testing.servers import PostgresServer, postgres_server

pytestmark = pytest.mark.system

KILLS = 30 if os.environ.get("LANEWAY_CHAOS") == "1" else 3


def greet(name: str) -> str:
    return name


@pytest.mark.timeout(600)
async def test_a_run_and_a_row_live_or_die_together_while_the_server_is_killed() -> None:
    with postgres_server(fsync=True) as server:
        async with Scheduler(f"{server.url}?schema=laneway&timeout=2") as app:
            app.task(greet)
            await app.open()
            server.execute("CREATE TABLE orders (run text)")
            told = 0
            for seed in range(KILLS):
                told += await _buy_until_it_dies(app, server, random.Random(seed))
                server.restart()
            orders = {run for (run,) in server.execute("SELECT run FROM orders")}
            runs = {run.id for run in await app.runs(limit=100_000)}

    assert runs == orders
    assert len(orders) >= told > 0


async def _buy_until_it_dies(app: Scheduler, server: PostgresServer, chance: random.Random) -> int:
    """Buy in one transaction after the other, some of them given up; return how many were acknowledged."""
    conninfo = Address.parse(server.url).conninfo
    killer = threading.Timer(chance.uniform(0.05, 0.5), server.kill)
    killer.start()
    told = 0
    try:
        with psycopg.connect(conninfo) as link:
            while True:
                receipt = await app.submit(greet.__name__, {"name": "ann"}, connection=link)
                link.execute("INSERT INTO orders VALUES (%s)", (receipt.run_id,))
                if chance.random() < 0.3:
                    link.rollback()
                else:
                    link.commit()
                    told += 1
    except (psycopg.OperationalError, StoreUnavailable):
        return told
    finally:
        killer.join()
