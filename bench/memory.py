"""The size of a run in a Redis server's memory or on a disk: while it is pending, and when it has ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg

from bench.growth import DONE, new_run, put
from bench.plan import Plan
from bench.rows import Experiment, Round, Row, experiment
from bench.subjects import IN_FLIGHT, STORES, fresh_url, noop
from laneway import Scheduler
from laneway.testing.hand import Hand
from laneway.testing.servers import ValkeyServer, valkey_server

DAY = 86_400 * 1_000_000
Used = Callable[[], int]  # returns bytes
TABLES = (
    "SELECT sum(pg_total_relation_size(pg_class.oid))::bigint FROM pg_class"
    " JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'laneway' AND relkind = 'r'"
)


def taking(store: str, what: str) -> Experiment:
    """Fill a store with runs of a hundred users and finish them all; the arguments are about 130 bytes of JSON."""

    @experiment(
        *[
            Row(
                name=f"memory.{store}.{kind}", title=f"{what} of a {kind} run: {STORES[store]}", unit="B", better="less"
            )
            for kind in ("pending", "finished")
        ]
    )
    async def measure(plan: Plan) -> list[list[Round]]:
        with place(plan, store) as (url, used):
            async with Scheduler(url) as app:
                app.task(noop)
                opened = await app.open()
                await opened.submit([new_run()])
                empty = used()
                await put(opened, plan.crowd)
                pending = used()
                hand = await Hand(opened, "finisher", tasks=["noop"], lease=DAY).register()
                while claimed := await hand.claim(room=IN_FLIGHT):
                    await hand.settle(claimed, DONE)
                finished = used()
        return [[Round((each - empty) / plan.crowd)] for each in (pending, finished)]

    return measure


@contextmanager
def place(plan: Plan, store: str) -> Iterator[tuple[str, Used]]:
    """Give the address of an empty store, and a function that returns its size."""
    if store == "redis":
        with valkey_server() as server:
            yield server.url, lambda: of_server(server)
        return
    with fresh_url(plan, store) as url:
        yield url, (lambda: of_tables(url)) if store == "postgres" else (lambda: of_file(url))


def of_server(server: ValkeyServer) -> int:
    # Cached scripts do not belong to runs.
    server.command("SCRIPT", "FLUSH", "SYNC")
    return int(server.facts("memory")["used_memory"])


def of_tables(url: str) -> int:
    """Return the size of tables and indexes after a vacuum, which the server also does by itself."""
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("VACUUM")
        [[size]] = link.execute(TABLES).fetchall()
    return int(size)


def of_file(url: str) -> int:
    """Return the size of the pages in use."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
        [[page], [pages], [free]] = [
            db.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "page_count", "freelist_count")
        ]
    return int(page * (pages - free))


EXPERIMENTS = (taking("redis", "memory"), taking("sqlite", "disk"), taking("postgres", "disk"))
