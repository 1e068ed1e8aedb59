"""Addresses that name a standby, alone or beside its primary: which server is used, and the errors."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from laneway import Scheduler
from laneway.errors import BadSetting, StoreUnavailable
from laneway.stores.postgres.examination import examine
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import new_run
from laneway.testing.servers import PostgresServer, PostgresStandby, postgres_server, postgres_standby
from tests.stores.postgres.tools import opened, refusal, until

pytestmark = pytest.mark.timeout(120)

NOBODY = 1  # a port on which no server listens
READ_ONLY = "has no server that can be written now: whoever answers is a standby, or set to read only"


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresServer]:
    with postgres_server(fsync=True) as server:
        yield server


@pytest.fixture(scope="module")
def standby(primary: PostgresServer) -> Iterator[PostgresStandby]:
    with postgres_standby(primary, synchronous=False) as standby:
        yield standby


async def caught_up(primary: PostgresServer) -> None:
    """Wait until the standby has all that the primary has."""
    behind = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn < pg_current_wal_lsn()"
    await until(lambda: primary.execute(behind) == [])


async def listens(store: PostgresStore) -> None:
    """Wait until it listens for notifications."""
    await until(lambda: store.access.runtime.is_listening)


def at(*ports: int, more: str = "") -> str:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://postgres:secret@{hosts}/postgres{more}"


async def test_of_two_servers_the_primary_is_used_wherever_it_stands(
    primary: PostgresServer, standby: PostgresStandby
) -> None:
    for nth, ports in enumerate([(primary.port, standby.port), (standby.port, primary.port)]):
        async with opened(at(*ports, more="?target_session_attrs=read-write")) as store:
            await store.submit([new_run(f"r{nth}")])
            assert (await store.depths()).runs["pending"] == nth + 1
            store.watch(lambda: None)
            await listens(store)


@pytest.mark.parametrize("more", ["", "?target_session_attrs=read-write", "?target_session_attrs=primary"])
async def test_servers_of_which_none_can_be_written_are_told_from_those_that_are_away(
    standby: PostgresStandby, more: str
) -> None:
    for ports in ((standby.port, NOBODY), (NOBODY, standby.port)):
        error = await refusal(at(*ports, more=more))

        assert isinstance(error, StoreUnavailable)
        assert str(error) == f"postgresql://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/postgres {READ_ONLY}"
        assert not error.maybe_done


async def test_of_servers_that_are_away_it_is_said_what_is_the_matter_with_each() -> None:
    error = await refusal("postgresql://ann:secret@127.0.0.1:1,no-such-host.invalid,127.0.0.1:2/d")

    said = str(error)
    assert isinstance(error, StoreUnavailable)
    assert said.startswith("postgresql://127.0.0.1:1,no-such-host.invalid,127.0.0.1:2/d cannot be reached (")
    assert said.count("refused") == 2
    assert "port 1 failed" in said
    assert "port 2 failed" in said


async def test_a_standby_alone_can_be_read_by_who_looks_and_says_that_it_is_one(
    primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(primary.url):
        error = await refusal(standby.url)
    await caught_up(primary)
    found = examine(Address.parse(standby.url), deep=True)

    assert isinstance(error, StoreUnavailable)
    assert "cannot be written: it is a standby, or its transactions are set to read only" in str(error)
    assert found.findings == []
    assert found.warnings == [
        "it is a standby, which can only be read: name the primary, or all hosts, one,two, in the address"
    ]


async def test_what_a_fail_over_may_lose_is_said_of_a_primary_that_waits_for_no_standby(
    primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(primary.url):
        unwaited = examine(Address.parse(primary.url), deep=False).kept
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        await until(lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        waited = examine(Address.parse(primary.url), deep=False).kept
        local = examine(Address.parse(f"{primary.url}?options=-c%20synchronous_commit%3Dlocal"), deep=False).kept
        primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
        primary.execute("SELECT pg_reload_conf()")

    lost = "everything that was acknowledged; a fail-over to a standby may lose the last moments"
    assert unwaited == f"{lost} (synchronous_standby_names is empty)"
    assert waited == "everything that was acknowledged"
    assert local == f"{lost} (synchronous_commit is local)"
    assert standby.follows


async def test_a_primary_that_waits_for_a_standby_which_is_away_is_warned_of() -> None:
    with postgres_server(fsync=True) as primary:
        async with opened(primary.url):
            with postgres_standby(primary):
                before = examine(Address.parse(primary.url), deep=False).warnings
            await until(lambda: primary.execute("SELECT 1 FROM pg_stat_replication") == [])
            after = examine(Address.parse(primary.url), deep=False).warnings

    assert before == []
    assert after == ["every commit waits for a standby (synchronous_standby_names), and none is connected"]


async def test_a_callers_connection_to_a_standby_is_refused(primary: PostgresServer, standby: PostgresStandby) -> None:
    async with Scheduler(primary.url) as app:

        @app.task
        async def greet() -> None: ...

        await caught_up(primary)
        with psycopg.connect(standby.url) as link, pytest.raises(BadSetting, match="or leads to a standby"):
            await app.submit(greet, connection=link)
