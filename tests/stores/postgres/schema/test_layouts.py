"""Layouts of a PostgreSQL schema: an older one is brought forward while workers go on, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from laneway.core.records.run import Claimed
from laneway.errors import StoreTooNew, StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import newest_layout
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.postgres.old_layouts import as_layout, rows
from tests.stores.postgres.tools import execute, opened, refusal, until, with_parameter
from tests.support.invariants import check_drains, check_invariants

pytestmark = pytest.mark.timeout(120)

LEFT = (errors.UndefinedTable, errors.UndefinedColumn, errors.ObjectNotInPrerequisiteState)  # the layout is another


class Filled:
    """A store with every kind of run in it, and a worker that executes some of them."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self.url, self.clock = url, clock
        self.hand = Hand(PostgresStore(url, clock))
        self.held: list[Claimed] = []

    async def fill(self) -> None:
        hand, store = await self.hand.register(), self.hand.store
        await store.submit([*new_runs(3, "done"), new_run("kept"), *new_runs(4, "chat", session="chat")])
        *done, kept, first = await hand.claim(5)
        await hand.succeed(*done, value=42)
        self.held = [kept, first]
        await store.submit([new_run("later", delay=3600), *new_runs(5, "ann", lane="background", user="ann")])
        await store.close()

    async def check(self) -> None:
        """See that nothing was lost, and that the worker that goes on, and a new one, can do all that is left."""
        store = self.hand.store = PostgresStore(self.url, self.clock)
        assert (await store.depths()).runs == {"succeeded": 3, "running": 2, "pending": 9}
        assert (await store.get("done-00000")).result == 42
        await check_invariants(store)
        reply = await self.hand.succeed(*self.held, room=20)
        assert sorted(run.id for run in reply.claimed) == ["ann-00000", "chat-00001"]
        await store.submit([new_run("new", session="chat")])
        await check_drains(store, self.clock)
        assert (await store.depths()).runs == {"succeeded": 15}
        await store.close()


@pytest.fixture
async def filled(postgres_place: str) -> AsyncIterator[Filled]:
    filled = Filled(with_parameter(postgres_place, "timeout=30"), FakeClock())  # the machine may be busy
    await filled.fill()
    yield filled
    execute(filled.url, f"DROP SCHEMA {Address.parse(filled.url).schema} CASCADE")


class Old:
    """Processes of an older laneway that go on, each in a thread of its own, until the layout changes."""

    def __init__(self, url: str, held: str) -> None:
        self._address, self._held = Address.parse(url), held
        self._over, self._done = threading.Event(), threading.Semaphore(0)
        self.written: list[str] = []  # the runs with an answer
        self.errors: list[psycopg.Error] = []
        acts: list[Callable[[psycopg.Connection[Any], str], None]] = [self._write, self._write, self._read, self._post]
        self._threads = [threading.Thread(target=self._go_on, args=(act, str(nth))) for nth, act in enumerate(acts)]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            for _ in range(20):
                assert self._done.acquire(timeout=30)
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def _go_on(self, act: Callable[[psycopg.Connection[Any], str], None], name: str) -> None:
        options = f"-c search_path={self._address.schema}"
        with psycopg.connect(self._address.conninfo, options=options) as link:
            nth = 0
            while not self._over.is_set():
                nth += 1
                try:
                    act(link, f"{name} {nth}")
                except LEFT:
                    return
                except psycopg.Error as error:
                    self.errors.append(error)
                    link.rollback()
                self._done.release()

    def _write(self, link: psycopg.Connection[Any], name: str) -> None:
        """Be alone with the tables, and write them in another order than a migration does."""
        link.execute("SELECT pg_advisory_xact_lock(%s), nextval('writes')", (self._address.lock,))
        link.execute("INSERT INTO watcher VALUES (%s, 0)", (name,))
        for change in ("outcome SET reason = reason", "session SET held = held", f"{self._held} SET paused = paused"):
            link.execute(f"UPDATE {change}".encode())
            time.sleep(0.005)
        link.commit()
        self.written.append(name)

    def _read(self, link: psycopg.Connection[Any], _: str) -> None:
        """Read from one snapshot, in another order than a migration takes the tables."""
        link.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for table in ("inbox", "worker", "session", "outcome", "held"):
            link.execute(f"SELECT count(*) FROM {table}".encode())
            time.sleep(0.005)
        link.commit()

    def _post(self, link: psycopg.Connection[Any], name: str) -> None:
        """Submit inside a transaction of its own, and give it up."""
        link.execute("INSERT INTO inbox (id, at, body) VALUES (%s, 0, '')", (name,))
        time.sleep(0.005)
        link.execute("SELECT count(*) FROM worker")
        link.rollback()


@pytest.mark.parametrize("layout", range(1, newest_layout()))
async def test_an_older_layout_is_brought_forward_while_older_processes_go_on(filled: Filled, layout: int) -> None:
    as_layout(layout, filled.url)
    assert rows(filled.url, "SELECT version FROM layout") == [(layout,)]
    old = Old(filled.url, "held_row" if layout == 5 else "held")

    def open_it() -> None:
        with old.at_work():
            asyncio.run(_open(filled.url))

    await asyncio.to_thread(open_it)

    assert rows(filled.url, "SELECT version FROM layout") == [(newest_layout(),)]
    assert old.errors == []
    kept = {name for (name,) in rows(filled.url, "SELECT id FROM watcher")}
    assert kept == set(old.written)
    await filled.check()


async def test_a_session_says_what_holds_now(filled: Filled) -> None:
    """They were deleted late in the fifth layout, and that a run has started was not written."""
    as_layout(5, filled.url)
    let_in = "SELECT 1, number, 0, 0, 'chat' FROM run WHERE id = 'chat-00000'"
    schema = Address.parse(filled.url).schema
    execute(
        filled.url,
        f"UPDATE {schema}.held_row SET rank = rank + 1",
        f"INSERT INTO {schema}.held_row (rank, number, kind, paused, session) {let_in.replace('run', schema + '.run')}",
        f"UPDATE {schema}.session SET passed = 1, joined = joined + 1, unstarted_then = number"
        f" FROM {schema}.run WHERE id = 'chat-00000'",
    )

    await _open(filled.url)

    assert rows(filled.url, "SELECT count(*) FROM held") == [(3,)]
    assert rows(filled.url, "SELECT unstarted FROM session") == [(0,)]
    await filled.check()


async def _open(url: str) -> None:
    async with opened(url):
        pass


async def test_several_who_open_an_older_store_at_once_bring_it_forward_once(filled: Filled) -> None:
    as_layout(1, filled.url)

    await asyncio.gather(*[asyncio.to_thread(asyncio.run, _open(filled.url)) for _ in range(4)])

    await filled.check()


async def test_another_program_that_has_tables_in_another_order_is_given_way(filled: Filled) -> None:
    as_layout(1, filled.url)
    address = Address.parse(filled.url)
    asked = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"

    with psycopg.connect(address.conninfo, options=f"-c search_path={address.schema}") as other:
        other.execute("SELECT count(*) FROM worker")
        opening = asyncio.create_task(asyncio.to_thread(asyncio.run, _open(filled.url)))
        await until(lambda: bool(other.execute(asked).fetchall()))
        # Each holds a lock that the other waits for; the server reports the deadlock to the other one.
        await asyncio.to_thread(other.execute, "SELECT count(*) FROM held")
        other.commit()

    await opening
    await filled.check()


async def test_a_transaction_that_goes_on_and_on_is_told_of_and_nothing_is_half_done(filled: Filled) -> None:
    as_layout(1, filled.url)
    address = Address.parse(filled.url)

    with psycopg.connect(address.conninfo) as other:
        other.execute(f"SELECT count(*) FROM {address.schema}.run".encode())
        error = await refusal(filled.url.replace("timeout=30", "timeout=0.5"))

    assert isinstance(error, StoreUnavailable)
    assert "kept others' transactions running, and this one waiting, for too long" in str(error)
    assert rows(filled.url, "SELECT version FROM layout") == [(1,)]
    await _open(filled.url)
    await filled.check()


# Errors of an older process


CHANGES = {
    "column": "ALTER TABLE {0}.lane RENAME COLUMN active TO busy",
    "table": "ALTER TABLE {0}.lane RENAME TO lane_row",
    "view": "ALTER TABLE {0}.ready RENAME TO ready_row; CREATE VIEW {0}.ready AS SELECT DISTINCT * FROM {0}.ready_row",
    "constraint": "ALTER TABLE {0}.run ADD COLUMN added int NOT NULL",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_process_that_goes_on_beside_a_newer_layout_is_told_its_number(
    postgres_place: str, change: str
) -> None:
    schema = Address.parse(postgres_place).schema
    changes = CHANGES[change].format(schema).split("; ")
    async with opened(postgres_place) as store:
        execute(postgres_place, *changes, f"UPDATE {schema}.layout SET version = 999")

        with pytest.raises(StoreTooNew) as writing:
            await store.submit([new_run("a")])
        if change in ("column", "table"):
            with pytest.raises(StoreTooNew) as reading:
                await store.lanes()
            assert str(reading.value) == str(writing.value)

    said = (
        f"schema {schema} has layout 999, made by a newer laneway; this one knows up to {newest_layout()}: upgrade it"
    )
    assert str(writing.value).endswith(said)


def test_a_worker_beside_a_newer_layout_ends_with_6_and_one_line_that_names_it(
    postgres_place: str, tmp_path: Path
) -> None:
    schema = Address.parse(postgres_place).schema
    (tmp_path / "tasks.py").write_text("from laneway import Scheduler\n\napp = Scheduler()\n", encoding="utf-8")
    command = [sys.executable, "-m", "laneway", "worker", "tasks:app"]
    environment = os.environ | {"LANEWAY_STORE": postgres_place}
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=both, text=True) as worker:
        killer = threading.Timer(40, worker.kill)
        killer.start()
        assert worker.stdout is not None
        said = iter(worker.stdout.readline, "")
        assert any("ready after" in line for line in said)
        execute(
            postgres_place,
            f"ALTER TABLE {schema}.worker RENAME COLUMN renewed_at TO heard_at",
            f"UPDATE {schema}.layout SET version = 999",
        )
        told = list(said)
        killer.cancel()

    assert worker.returncode == 6, told
    assert told[-1].startswith("laneway: postgresql://")
    assert f"schema {schema} has layout 999, made by a newer laneway" in told[-1]
    assert "Traceback" not in "".join(told)
