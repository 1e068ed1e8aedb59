"""Errors of a server that refuses: one line with the address and without the password, and nothing is done."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from laneway import Scheduler
from laneway.errors import BadURL, StoreError, StoreUnavailable
from laneway.stores.postgres.server import connection
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.errors import as_laneway_error
from laneway.testing import new_run
from laneway.testing.servers import Postgres, PostgresServer, postgres_server
from tests.stores.postgres.tools import cut, execute, opened, refusal, tables, with_parameter

PASSWORD = "very secret"
IN_URL = "very%20secret"

pytestmark = pytest.mark.timeout(120)


@contextmanager
def database(server: Postgres, more: str = "") -> Iterator[str]:
    """Make a database in another way than others are made; give its name."""
    name = f"odd_{secrets.token_hex(6)}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE template0 {more}")
    try:
        yield name
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def strict() -> Iterator[PostgresServer]:
    """A server that requires passwords, with users that have few rights."""
    with postgres_server(password=PASSWORD) as server:
        for name in ("ann", "ben"):
            server.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        server.execute(f"CREATE ROLE nologin PASSWORD '{PASSWORD}'")
        yield server


def as_user(server: PostgresServer, name: str, database: str = "postgres", password: str = IN_URL) -> str:
    return f"postgresql://{name}:{password}@127.0.0.1:{server.port}/{database}"


# Connections that are refused


async def test_a_wrong_user_password_or_database_is_the_addresses_fault(strict: PostgresServer) -> None:
    shown = f"postgresql://127.0.0.1:{strict.port}"
    wrong = await refusal(as_user(strict, "ann", password="a%20wrong%20secret"))
    unknown = await refusal(as_user(strict, "nobody"))
    none = await refusal(f"postgresql://ann@127.0.0.1:{strict.port}/postgres")
    missing = await refusal(as_user(strict, "ann", "nowhere"))
    barred = await refusal(as_user(strict, "nologin"))

    assert str(wrong) == str(unknown) == f"{shown}/postgres does not take this user and password"
    assert str(none).startswith(f"{shown}/postgres wants a password, and the address has none")
    assert str(missing) == f"{shown}/nowhere has no such database; create it first: createdb"
    assert str(barred).startswith(f"{shown}/postgres does not let this user in")
    assert all(isinstance(error, BadURL) for error in (wrong, unknown, none, missing, barred))


async def test_an_unknown_user_of_a_trusting_server_is_said(postgres_server: Postgres) -> None:
    error = await refusal(postgres_server.url.replace("postgres@", "nobody@"))

    assert isinstance(error, BadURL)
    assert str(error).endswith("does not know this user")


async def test_who_may_not_connect_to_the_database_is_told_what_helps(strict: PostgresServer) -> None:
    with database(strict) as name:
        strict.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")

        error = await refusal(as_user(strict, "ann", name))

    assert isinstance(error, BadURL)
    assert str(error).endswith("does not let this user into this database: GRANT CONNECT ON DATABASE helps")


async def test_who_may_not_create_the_schema_is_told_which_and_what_sql_helps(strict: PostgresServer) -> None:
    with database(strict) as name:
        url = as_user(strict, "ann", name) + "?schema=jobs"
        admin = as_user(strict, "postgres", name)

        error = await refusal(url)
        execute(admin, 'CREATE SCHEMA jobs AUTHORIZATION "ann"')
        async with opened(url):
            pass

    assert type(error) is StoreError
    assert str(error).endswith(
        f'user ann may not create a schema in database {name}; let its owner say CREATE SCHEMA jobs AUTHORIZATION "ann"'
    )


async def test_who_may_not_use_anothers_schema_is_told_so_and_nothing_is_left_behind(strict: PostgresServer) -> None:
    with database(strict) as name:
        url, admin = as_user(strict, "ann", name), as_user(strict, "postgres", name)
        execute(admin, "CREATE SCHEMA laneway")
        unusable = await refusal(url)
        execute(admin, "GRANT USAGE ON SCHEMA laneway TO ann")
        closed = await refusal(url)
        left = tables(admin)
        execute(admin, 'ALTER SCHEMA laneway OWNER TO "ann"')
        async with opened(url):
            other = await refusal(as_user(strict, "ben", name))

    assert type(unusable) is type(closed) is type(other) is StoreError
    assert "this user may not do what laneway does in schema laneway (permission denied for schema" in str(unusable)
    assert "user ann may not make or change tables in schema laneway; let its owner say" in str(closed)
    assert str(closed).endswith('ALTER SCHEMA laneway OWNER TO "ann"')
    assert "this user may not do what laneway does in schema laneway" in str(other)
    assert str(other).endswith("GRANT it USAGE of the schema, and ALL on the tables and sequences in it")
    assert left == []


async def test_a_password_that_is_changed_while_at_work_is_waited_for(strict: PostgresServer) -> None:
    with database(strict, "OWNER ann") as name:
        async with opened(as_user(strict, "ann", name)) as store:
            strict.execute("ALTER ROLE ann PASSWORD 'another'")
            cut(strict)
            for call in (store.depths, store.open):
                with pytest.raises(StoreUnavailable, match="does not take this user and password"):
                    await call()
            strict.execute(f"ALTER ROLE ann PASSWORD '{PASSWORD}'")

            await store.submit([new_run("a")])
            assert (await store.depths()).runs == {"pending": 1}


# Servers that do not fit


async def test_nobody_there_is_said_at_once_with_the_address() -> None:
    with postgres_server() as server:
        server.kill()
        began = time.monotonic()

        error = await refusal(server.url.replace("postgres@", f"postgres:{IN_URL}@"))

        assert time.monotonic() - began < 2
        assert isinstance(error, StoreUnavailable)
        assert str(error).startswith(f"postgresql://127.0.0.1:{server.port}/postgres cannot be reached (")
        assert "refused" in str(error)
        assert not error.maybe_done


async def test_a_name_that_nobody_has_is_said() -> None:
    error = await refusal("postgresql://ann:secret@no-such-host.invalid/d")

    assert isinstance(error, StoreUnavailable)
    assert str(error).startswith("postgresql://no-such-host.invalid/d cannot be reached (")


async def test_a_server_that_is_too_old_is_refused(postgres_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST", 999_999)
    before = tables(postgres_place)

    error = await refusal(postgres_place)

    assert type(error) is StoreError
    assert "which is too old; laneway needs 14 or newer" in str(error)
    assert tables(postgres_place) == before


async def test_a_database_that_is_not_in_utf8_is_refused(postgres_server: Postgres) -> None:
    with database(postgres_server, "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'") as name:
        url = f"{postgres_server.url.rpartition('/')[0]}/{name}"

        error = await refusal(url)

        assert tables(url) == []
    assert type(error) is StoreError
    assert str(error).endswith("keeps text as SQL_ASCII; laneway needs a database with encoding UTF8")


async def test_a_server_that_cannot_be_written_is_said_before_and_after_the_store_was_made(
    postgres_server: Postgres, postgres_place: str
) -> None:
    read_only = with_parameter(postgres_place, "options=-c%20default_transaction_read_only%3Don")
    before = tables(postgres_place)

    first = await refusal(read_only)
    left = tables(postgres_place)
    async with opened(postgres_place):
        second = await refusal(read_only)

    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    assert str(first) == str(second)
    assert "cannot be written: it is a standby, or its transactions are set to read only" in str(first)
    assert not second.maybe_done
    assert left == before


async def test_a_server_with_no_room_for_another_connection_is_said() -> None:
    with postgres_server(max_connections=4, superuser_reserved_connections=1, max_wal_senders=0) as server:
        server.execute("CREATE ROLE ann LOGIN SUPERUSER")
        server.execute("CREATE ROLE ben LOGIN")
        held = [psycopg.connect(as_user(server, "ann")) for _ in range(3)]
        error = await refusal(as_user(server, "ben"))
        for link in held:
            link.close()

    assert isinstance(error, StoreUnavailable)
    assert "cannot be reached" in str(error)
    assert "connection" in str(error)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.DiskFull("no space"), "has no space left on its disk"),
        (errors.OutOfMemory("no memory"), "is out of memory"),
        (errors.TooManyConnections("too many"), "takes no more connections"),
        (errors.AdminShutdown("by command"), "is being shut down"),
        (errors.CannotConnectNow("starting"), "is starting or stopping"),
        (errors.ReadOnlySqlTransaction("no"), "cannot be written: it is a standby, or its transactions are set to"),
        (psycopg.OperationalError("line one\nline two"), "cannot be reached (line one)"),
    ],
)
def test_what_passes_by_itself_is_told_in_one_line_with_the_address(error: psycopg.Error, says: str) -> None:
    found = as_laneway_error(error, Address.parse(f"postgresql://ann:{IN_URL}@host/d"), maybe_done=True)

    assert isinstance(found, StoreUnavailable)
    assert str(found).startswith(f"postgresql://host/d {says}")
    assert "\n" not in str(found)
    assert found.maybe_done


# One bad call


async def test_a_bad_call_does_not_fail_its_neighbours(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.submit([new_run("first")])
        names = ["good", "zero\0", "lone\ud800", "fine"]
        calls = [store.submit([new_run(name, session=name)]) for name in names]

        answers = await asyncio.gather(*calls, return_exceptions=True)

        assert [isinstance(answer, list) for answer in answers] == [True, False, False, True]
        assert (await store.depths()).runs == {"pending": 3}


# Passwords are never shown


async def test_no_password_is_in_logs_or_representations(
    strict: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with database(strict, "OWNER ann") as name, caplog.at_level(logging.DEBUG):
        app = Scheduler(as_user(strict, "ann", name))
        shown = f"{app} {app!r} {app._store!r} {vars(app._store)!r}"
        await app.open()
        store = await app.open()
        store.watch(lambda: None)
        cut(strict)
        await store.submit([new_run("a")])
        await app.aclose()

    assert "secret" not in shown + caplog.text


Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def laneway(tmp_path: Path) -> Cli:
    """Call the command line on a store."""

    def call(url: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "laneway", *words]
        environment = os.environ | {"LANEWAY_STORE": url}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50, check=False
        )

    return call


def test_the_command_line_says_it_in_one_line_with_its_exit_code(laneway: Cli, strict: PostgresServer) -> None:
    wrong = laneway(as_user(strict, "ann", password="wrong%20secret"), "runs", "list")
    unread = laneway(f"postgresql://ann:{IN_URL}/more@h/d", "doctor")
    away = laneway("postgresql://ann:secret@127.0.0.1:1/d", "runs", "list")
    absent = laneway(as_user(strict, "postgres", "template1"), "doctor")

    assert [each.returncode for each in (wrong, unread, away, absent)] == [2, 2, 6, 6]
    for each in (wrong, unread, away, absent):
        assert "secret" not in each.stdout + each.stderr
        assert "Traceback" not in each.stderr
        assert each.stderr.count("\n") == 1, each.stderr
        assert each.stderr.startswith("laneway: postgresql://")
