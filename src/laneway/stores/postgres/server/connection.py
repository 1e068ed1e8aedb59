"""Opening the store: connect, check whose schema it is, create or migrate the tables.

**Order.** Nothing is changed before the schema is known to be laneway's, empty or absent. A schema of another program
or of a newer laneway is refused and left as it was. Creating and migrating happen under an advisory lock, after a
second check, because another process may have done it in between. Each migration is one transaction, layout number
included, so workers that go on meanwhile see the old layout or the new one.

**Beside workers.** A migration locks, in this order: the migration lock, the write lock, the table inbox, all other
tables. So no writer is active; no reader and no user's submitting transaction either, because both begin with the
inbox. Once the first table is changed, the migration waits for nothing. *Race*: other programs lock tables in any
order, so one of them may wait for the migration and the migration for it. The migration gives up first, well before the
server looks for a deadlock, lets all others go on, and tries again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Generator
from contextlib import closing
from functools import cache
from importlib.resources import files
from itertools import count
from time import monotonic, sleep
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import sql
from psycopg.abc import RV, PQGen

from laneway.core.records.policy import DEFAULT_LANES
from laneway.errors import LanewayError, NotAStore, StoreError, StoreTooNew
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.errors import (
    AGAIN,
    OLDEST,
    TimedOut,
    as_connect_error,
    as_laneway_error,
    may_be_migrated,
)
from laneway.stores.postgres.server.settings import settings

T = TypeVar("T")
_LAYOUT = re.compile(r"(\d{4})_\w+\.sql")
_MORE = 1.0  # seconds: the time-out here is so much longer than the one in the server
_TABLE = 300  # ms that a migration waits for the lock of one table
_MIGRATING = 3600.0  # seconds that a migration may take once it has its locks: it may build an index of everything


class ServerConnection(psycopg.Connection[Any]):
    """A connection whose calls have a time-out, whatever the server does, and its `prepared` statements."""

    patience = 6.0
    prepares = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prepared: dict[str, bytes] = {}  # names of statements, by their text
        self.names = count()

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Complete a call. Raises TimedOut; the connection is unusable then."""
        return super().wait(self._in_time(gen) if timeout is None else gen, interval, timeout)

    def _in_time(self, gen: PQGen[RV]) -> Generator[Any, Any, RV]:
        end = monotonic() + self.patience
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() > end:
                    self.patience = 0.0
                    raise TimedOut("it did not answer")
                wanted = gen.send(ready)
        except StopIteration as done:
            found: RV = done.value
            return found


def connect(address: Address, *, again: bool = False) -> ServerConnection:
    """Open the store to write; create or migrate the tables if needed. Raises LanewayError, with nothing changed."""
    link = connect_bare(address, again=again)
    try:
        _migrate(link, address)
    except psycopg.Error as error:
        link.close()
        raise as_laneway_error(error, address) from error
    except BaseException:
        link.close()
        raise
    return link


def diagnosed_error(error: psycopg.Error, address: Address, *, maybe_done: bool = False) -> LanewayError:
    """Return the error to raise for a server's error; StoreTooNew if a migration by a newer laneway is the cause."""
    if may_be_migrated(error):
        try:
            with closing(connect_bare(address, again=True)) as link:
                layout_of(link, address)
        except StoreTooNew as newer:
            return newer
        except (psycopg.Error, LanewayError):
            pass  # the first error is the one to report
    return as_laneway_error(error, address, maybe_done=maybe_done)


def connect_bare(address: Address, *, again: bool = False) -> ServerConnection:
    """Open a connection, whatever the schema contains; `again` if the server accepted this address before."""
    try:
        link = ServerConnection.connect(
            address.conninfo,
            autocommit=True,
            prepare_threshold=None,
            **_defaults(address),
        )
    except psycopg.Error as error:
        raise as_connect_error(error, address, again=again) from error
    link.patience = address.timeout + _MORE
    link.prepares = not address.pooled
    try:
        _refuse_unfit(link, address)
    except BaseException:
        link.close()
        raise
    return link


def _defaults(address: Address) -> dict[str, Any]:
    given = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    ours = {"connect_timeout": max(2, round(address.timeout)), "application_name": "laneway", "client_encoding": "UTF8"}
    return {name: value for name, value in ours.items() if name not in given}


def _refuse_unfit(link: ServerConnection, address: Address) -> None:
    if link.pgconn.server_version < OLDEST:
        version = link.info.parameter_status("server_version")
        raise StoreError(f"{address.shown} is PostgreSQL {version}, which is too old; laneway needs 14 or newer")
    encoding = link.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"{address.shown} keeps text as {encoding}; laneway needs a database with encoding UTF8")


def layout_of(link: ServerConnection, address: Address) -> int:
    """Return the number of the schema's layout, 0 if there is nothing of it. Raises NotAStore and StoreTooNew."""
    schema = address.schema
    [[ours, tables]] = link.execute(
        "SELECT to_regclass(format('%%I.layout', %s::text)) IS NOT NULL,"
        " (SELECT count(*) FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = %s::text)",
        (schema, schema),
    ).fetchall()
    if not ours:
        if tables:
            raise NotAStore(f"{address.shown}: schema {schema} belongs to another program; ?schema= names another one")
        return 0
    query = sql.SQL("SELECT version FROM {}.layout WHERE program = 'laneway'").format(sql.Identifier(schema))
    try:
        found = link.execute(query).fetchone()
    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction, psycopg.DataError):
        found = None
    if found is None or not isinstance(found[0], int):
        raise NotAStore(f"{address.shown}: schema {schema} belongs to another program; ?schema= names another one")
    if found[0] > newest_layout():
        raise StoreTooNew(
            f"{address.shown}: schema {schema} has layout {found[0]}, made by a newer laneway;"
            f" this one knows up to {newest_layout()}: upgrade it"
        )
    return int(found[0])


def newest_layout() -> int:
    """Return the number of the layout that this laneway uses."""
    return max(_layouts())


def _migrate(link: ServerConnection, address: Address) -> None:
    if layout_of(link, address) == newest_layout():
        return
    link.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # so that a second look finds what others did
    end = monotonic() + address.timeout
    while True:
        try:
            _migrate_at_once(link, address)
            return
        except (*AGAIN, psycopg.errors.LockNotAvailable):
            if monotonic() > end:
                raise
            sleep(random.uniform(0.05, 0.2))  # the transactions that waited for the migration go on


def _migrate_at_once(link: ServerConnection, address: Address) -> None:
    """Migrate, or raise LockNotAvailable if another transaction holds a lock that is needed."""
    with link.transaction():
        link.execute(sql.SQL("SET LOCAL lock_timeout TO {}").format(settings(address)["lock_timeout"]))
        for lock in (address.migration_lock, address.lock):
            link.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        # Race: another process may have migrated, even to a newer layout, before this one got the lock.
        done = layout_of(link, address)
        if done == newest_layout():
            return
        _make_schema(link, address)
        link.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(address.schema)))
        patience, link.patience = link.patience, _MIGRATING
        try:
            _lock_tables(link, address)
            _bring_up(link, done)
        except psycopg.errors.InsufficientPrivilege as error:
            raise _forbidden(link, address) from error
        finally:
            link.patience = patience


def _lock_tables(link: ServerConnection, address: Address) -> None:
    """Lock all tables: a table that is locked later could belong to a transaction that waits for this one."""
    link.execute(sql.SQL("SET LOCAL lock_timeout TO {}").format(_TABLE))
    for name in sorted(_tables(link, address), key=lambda name: (name != "inbox", name)):
        link.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(name)))


def _tables(link: ServerConnection, address: Address) -> list[str]:
    query = "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = %s::text::regnamespace AND relkind = 'r'"
    return [name for (name,) in link.execute(query, (address.schema,))]


def _bring_up(link: ServerConnection, done: int) -> None:
    for version in sorted(number for number in _layouts() if number > done):
        # Crash here: the whole migration is one transaction, number included.
        link.execute(_layouts()[version].encode())
        if version == 1:
            link.execute(_first_rows())
        link.execute("UPDATE layout SET version = %s", (version,))


def _forbidden(link: ServerConnection, address: Address) -> StoreError:
    user, schema = link.info.user, address.schema
    return StoreError(
        f"{address.shown}: user {user} may not make or change tables in schema {schema}; let its owner say"
        f' ALTER SCHEMA {schema} OWNER TO "{user}"'
    )


def _first_rows() -> sql.Composed:
    """Return the statements that write the rows of an empty store."""
    lane = sql.SQL('INSERT INTO lane (name, "limit", per_user, declared) VALUES ({}, {}, {}, {})')
    lanes = [
        lane.format(each.name, each.limit, each.per_user, msgspec.json.encode(each).decode()) for each in DEFAULT_LANES
    ]
    counts = sql.SQL("INSERT INTO heartbeat VALUES (1, 0, 0)"), sql.SQL("INSERT INTO counter VALUES (1, 0, 0)")
    return sql.SQL("; ").join([*counts, *lanes])


def empty_schema(link: ServerConnection, address: Address) -> None:
    """Delete everything in a store. For tests: no process may be using it."""
    tables = [name for name in _tables(link, address) if name != "layout"]
    with link.transaction():
        link.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(address.schema)))
        link.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in tables))
        link.execute(_first_rows())


def _make_schema(link: ServerConnection, address: Address) -> None:
    schema = address.schema
    [[there]] = link.execute("SELECT to_regnamespace(%s::text) IS NOT NULL", (schema,)).fetchall()
    if there:
        return
    try:
        link.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    except psycopg.errors.InsufficientPrivilege as error:
        user, database = link.info.user, link.info.dbname
        raise StoreError(
            f"{address.shown}: user {user} may not create a schema in database {database}; let its owner say"
            f' CREATE SCHEMA {schema} AUTHORIZATION "{user}"'
        ) from error


@cache
def _layouts() -> dict[int, str]:
    found = {}
    for file in files("laneway.stores.postgres").joinpath("schema").iterdir():
        name = _LAYOUT.fullmatch(file.name)
        if name is not None:
            found[int(name[1])] = file.read_text(encoding="utf-8")
    return found
