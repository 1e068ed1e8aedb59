"""Calls to a PostgreSQL server whose connections are cut, that is frozen, or whose lock another client keeps."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from laneway.errors import StoreUnavailable
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect, connect_bare
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.postgres.transactions import write_connection
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.sql.database import Database
from laneway.testing import Hand, new_run, new_runs
from laneway.testing.servers import PostgresServer, postgres_server
from tests.stores.postgres.tools import cut, opened, until, waiting_for_the_lock, with_parameter

pytestmark = pytest.mark.timeout(120)


def _slow(db: Database) -> None:
    assert isinstance(db, PostgresDatabase)
    db.say("SELECT pg_sleep(30)")


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """A server that the tests of this file freeze, kill and start again."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(own: PostgresServer) -> Iterator[str]:
    """An empty database there."""
    with own.database() as url:
        yield url


# Connections that are cut


async def test_a_connection_that_was_cut_between_two_calls_is_not_noticed(own: PostgresServer, url: str) -> None:
    async with opened(url) as store:
        hand = await Hand(store).register()
        for nth in range(3):
            assert (await store.depths()).runs == ({"pending": nth} if nth else {})
            assert cut(own) >= 2
            assert (await store.submit([new_run(f"r{nth}")]))[0].run_id == f"r{nth}"
            cut(own)
            assert hand.renew().leases == []


async def test_a_server_that_was_restarted_between_two_calls_is_not_noticed(own: PostgresServer, url: str) -> None:
    async with opened(url) as store:
        await store.submit([new_run("a")])
        assert (await store.depths()).runs == {"pending": 1}
        own.restart()
        assert (await store.depths()).runs == {"pending": 1}
        own.kill()
        own.restart()

        answers = await asyncio.gather(*(store.submit([new_run(f"b{nth}")]) for nth in range(20)))

        assert len(answers) == 20
        assert (await store.depths()).runs == {"pending": 21}


async def test_a_call_that_waits_for_the_lock_when_it_is_cut_waits_on(own: PostgresServer, url: str) -> None:
    address = Address.parse(url)
    other = connect_bare(address)
    async with opened(url) as store:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s)", (address.lock,))
        call = asyncio.create_task(store.submit([new_run("a")]))
        await until(lambda: waiting_for_the_lock(own) == 1)

        assert cut(own, "wait_event_type = 'Lock'") == 1
        await until(lambda: waiting_for_the_lock(own) == 1)
        assert not call.done()
        other.close()

        assert [receipt.run_id for receipt in await call] == ["a"]


async def test_a_transaction_that_is_cut_has_not_happened_and_its_callers_hear_of_it(
    own: PostgresServer, url: str
) -> None:
    async with opened(url) as store:

        def cut_off(db: Database, _: AfterCommit) -> None:
            assert cut(own, "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')") == 1

        writing, asked = store.access.runtime.writer, threading.Event()
        await store.submit([new_run("before")])
        first = writing.call(lambda *_: asked.wait())
        calls = [store.submit([new_run("a")]), writing.call(cut_off), store.submit([new_run("b")])]
        batch = asyncio.gather(first, *calls, return_exceptions=True)
        await asyncio.sleep(0)
        asked.set()
        _, *answers = await batch

        assert all(isinstance(answer, StoreUnavailable) for answer in answers), answers
        assert (await store.depths()).runs == {"pending": 1}
        await store.submit([new_run("a"), new_run("b")])
        assert (await store.depths()).runs == {"pending": 3}


async def test_many_calls_that_a_server_refuses_because_it_cannot_be_written_are_refused_at_once(
    own: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = list[Address]()

    def counting(address: Address, *, again: bool = False) -> ServerConnection:
        connected.append(address)
        return connect(address, again=again)

    monkeypatch.setattr(write_connection, "connect", counting)
    async with opened(url) as store:
        database = url.rpartition("/")[2]
        own.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only TO on')
        cut(own)
        connected.clear()
        calls = (store.submit([new_run(f"r{nth}")]) for nth in range(20))
        answers = await asyncio.gather(*calls, return_exceptions=True)

        assert {type(answer) for answer in answers} == {StoreUnavailable}
        assert len({id(answer) for answer in answers}) == 20
        assert len(connected) <= 3, "not one for each of them"
        own.execute(f'ALTER DATABASE "{database}" RESET default_transaction_read_only')
        await store.submit([new_run("a")])
        assert (await store.depths()).runs == {"pending": 1}


async def test_a_connection_that_ends_before_it_is_set_up_is_not_used(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url)
    monkeypatch.setattr(write_connection, "set_up", lambda _: "SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(StoreUnavailable):
        await store.open()
    monkeypatch.setattr(write_connection, "set_up", lambda _: "SELECT 1/0")
    with pytest.raises(Exception, match="division by zero"):
        await store.open()
    monkeypatch.undo()

    assert (await store.depths()).runs == {}
    await store.close()


# Calls that take too long


async def test_a_statement_that_takes_too_long_is_given_up_by_the_server(url: str) -> None:
    async with opened(url, "timeout=0.3") as store:
        writing, reading = store.access.runtime.writer, store.access.runtime.reader

        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="could not finish a call in time"):
            await writing.call(lambda db, _: _slow(db))
        with pytest.raises(StoreUnavailable, match="could not finish a call in time"):
            await reading.call(_slow)
        assert time.monotonic() - began < 5
        assert await store.submit([new_run("a")])


async def test_a_lock_that_somebody_keeps_is_waited_for_and_then_given_up(own: PostgresServer, url: str) -> None:
    address = Address.parse(url)
    other = connect_bare(address)
    async with opened(url, "timeout=0.5") as store:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s)", (address.lock,))

        with pytest.raises(StoreUnavailable, match="kept others' transactions running, and this one waiting") as caught:
            await store.submit([new_run("a")])
        assert (await store.depths()).runs == {}, "who only reads does not wait"
        other.close()

        assert not caught.value.maybe_done
        assert await store.submit([new_run("a")])


HOLDER = """
import asyncio, sys
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import new_run

async def main():
    store = PostgresStore(sys.argv[1])
    await store.open()
    write, tried = store.access.runtime.writer.call, []

    def work(db, after_commit):
        tried.append(1)
        db.execute("check.tidy_turns").rowcount
        if sys.argv[2] == "pipeline":
            db.execute("check.tidy_turns")
            db.pipe.flush()
        if len(tried) == 1:
            print("has it", flush=True)
            input()
    task = asyncio.ensure_future(write(work))
    await asyncio.wait([task])
    print(task.exception(), len(tried), flush=True)
    await store.submit([new_run("late")])
    await store.close()

asyncio.run(main())
"""


def _python(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("where", ["between", "pipeline"])
async def test_a_process_that_is_frozen_with_the_lock_holds_the_others_up_for_some_seconds(
    url: str, where: str
) -> None:
    holder = _python(HOLDER, url, where)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        async with opened(with_parameter(url, "timeout=5")) as store:
            assert (await asyncio.to_thread(holder.stdout.readline)) == "has it\n"
            holder.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            while True:
                try:
                    await store.submit([new_run("a")])
                    break
                except StoreUnavailable:
                    assert time.monotonic() - began < 30
            took = time.monotonic() - began
            holder.send_signal(signal.SIGCONT)
            holder.stdin.write("\n")
            holder.stdin.flush()
            said = await asyncio.to_thread(holder.communicate)

            assert 2 < took < 15
            assert said[0] == "None 2\n", "what it had done is undone, and done again"
            assert (await store.depths()).runs == {"pending": 2}
            assert holder.returncode == 0
    finally:
        holder.kill()
        holder.communicate()


async def test_a_server_that_stands_still_is_given_up_in_time_and_found_again(own: PostgresServer, url: str) -> None:
    async with opened(url, "timeout=1") as store, opened(url, "timeout=1") as fresh:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await store.depths()
        own.freeze()
        try:
            began = time.monotonic()
            calls = [
                *(store.submit([new_run(f"b{nth}")]) for nth in range(10)),
                *(store.get("a") for _ in range(10)),
                *(store.events("a") for _ in range(10)),
                fresh.depths(),
                asyncio.to_thread(hand.renew),
            ]
            failed = await asyncio.gather(*calls, return_exceptions=True)
            took = time.monotonic() - began
            with pytest.raises(StoreUnavailable) as later:
                await store.submit([new_run("c")])
        finally:
            own.thaw()

        assert all(isinstance(error, StoreUnavailable) for error in failed), failed
        assert took < 10
        assert not later.value.maybe_done
        assert "did not answer in time" in str(failed[0]) or "cannot be reached" in str(failed[0])

        async def works() -> bool:
            try:
                return bool(await store.submit([new_run("d")]))
            except StoreUnavailable:
                return False

        await until(works)
        assert (await store.depths()).runs["pending"] >= 2


async def test_closing_returns_though_the_server_stands_still(own: PostgresServer, url: str) -> None:
    store = PostgresStore(with_parameter(url, "timeout=1"))
    await store.open()
    await Hand(store).register()
    store.watch(lambda: None)
    await store.depths()
    own.freeze()
    try:
        began = time.monotonic()
        call = asyncio.create_task(store.submit([new_run("a")]))
        await asyncio.sleep(0)
        await asyncio.wait_for(store.close(), 20)
        took = time.monotonic() - began
        [answer] = await asyncio.gather(call, return_exceptions=True)
    finally:
        own.thaw()

    assert took < 10
    assert isinstance(answer, StoreUnavailable)


# Loops, threads, forks


def test_a_store_can_be_used_from_many_loops_and_threads(url: str) -> None:
    store = PostgresStore(url)

    async def use(name: str) -> None:
        assert await store.submit(new_runs(3, name))
        assert (await store.get(f"{name}-00000")).state.value == "pending"

    asyncio.run(use("first"))
    threads = [threading.Thread(target=asyncio.run, args=(use(f"t{nth}"),)) for nth in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(use("last"))

    assert asyncio.run(store.depths()).runs == {"pending": 18}
    asyncio.run(store.close())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_makes_connections_of_its_own(url: str) -> None:
    store = PostgresStore(url)

    async def use(who: str) -> None:
        hand = await Hand(store, who).register()
        for nth in range(20):
            await store.submit([new_run(f"{who}{nth}")])
            await hand.succeed(*await hand.claim())
            # Parent or child executes it, the faster one.
            assert (await store.get(f"{who}{nth}")).task == "work"
        await hand.leave()

    asyncio.run(use("before"))
    child = os.fork()
    if not child:
        try:
            asyncio.run(use("child"))
            asyncio.run(store.close())
            os._exit(0)
        finally:
            os._exit(1)
    asyncio.run(use("parent"))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(store.depths()).runs == {"succeeded": 60}
    assert asyncio.run(store.check()) == []
    asyncio.run(store.close())
