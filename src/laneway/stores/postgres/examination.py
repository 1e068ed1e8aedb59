"""Examine a store from outside: version, sizes, findings, and warnings to operators. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import psycopg

from laneway.errors import NotAStore
from laneway.ports.upkeep import Examination
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect_bare, layout_of, newest_layout
from laneway.stores.postgres.server.errors import as_laneway_error
from laneway.stores.postgres.server.pipeline import Pipeline
from laneway.stores.postgres.server.settings import begin_to_read, set_up
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.tables.reads import runs
from laneway.stores.tables.upkeep import check

OLD = 300  # seconds that a transaction may be open
MANY = 500_000  # rows that may be dead in a busy table
BUSY = ("ready", "parked", "held", "due", "lease", "lane", "pace", "turn", "seat", "session", "worker")
CROWDED = 0.8  # of the connections that the server allows


def examine(address: Address, *, deep: bool) -> Examination:
    """Examine the store; see `UpkeepStore.examine`."""
    with closing(connect_bare(address)) as link:
        try:
            layout = layout_of(link, address)
            if not layout:
                raise NotAStore(
                    f"{address.shown} has no schema {address.schema}; a store is made when a scheduler first uses it"
                )
            if setting := set_up(address):
                link.execute(setting.encode())
            for statement in begin_to_read(address):
                link.execute(statement.encode())
            return _examined(link, address, layout, deep=deep)
        except psycopg.Error as error:
            raise as_laneway_error(error, address) from error


def _examined(link: ServerConnection, address: Address, layout: int, *, deep: bool) -> Examination:
    current = layout == newest_layout()
    [[size]] = link.execute(_SIZE, (address.schema,)).fetchall()
    examination = Examination(
        engine=f"PostgreSQL {link.info.parameter_status('server_version')}",
        layout=layout,
        newest_layout=newest_layout(),
        kept=_kept(link),
        warnings=_warnings(link, address),
        sizes={"tables": int(size), "dead": sum(_dead(link, address).values())},
    )
    # An older layout may lack some columns.
    return _looked_into(link, examination, deep=deep) if current else examination


def _looked_into(link: ServerConnection, examination: Examination, *, deep: bool) -> Examination:
    with Pipeline(link) as pipe:
        db = PostgresDatabase(pipe)
        newest = db.execute("examination.newest").fetchall()
        [[back]] = db.execute("examination.set_back").fetchall()
        return msgspec.structs.replace(
            examination,
            findings=check.look(db) if deep else None,
            runs=runs.count(db),
            workers=runs.workers(db),
            newest_at=max((at for (at,) in newest if at), default=None),
            set_back=max(0, back or 0),
        )


_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint FROM pg_catalog.pg_class"
    " JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s::text AND relkind = 'r'"
)
_DEAD = "SELECT relname, n_dead_tup FROM pg_catalog.pg_stat_user_tables WHERE schemaname = %s::text AND n_dead_tup > 0"
_TAKEN = (
    "SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'),"
    " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
)
_OLDEST = (
    "SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::int FROM pg_catalog.pg_stat_activity"
    " WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()"
)


def _dead(link: ServerConnection, address: Address) -> dict[str, int]:
    """Return the number of dead rows of each table, as the server counts them."""
    return {name: int(rows) for name, rows in link.execute(_DEAD, (address.schema,)).fetchall()}


def _setting(link: ServerConnection, name: str) -> str:
    [[value]] = link.execute("SELECT current_setting(%s::text)", (name,)).fetchall()
    return str(value)


def _kept(link: ServerConnection) -> str:
    if _setting(link, "fsync") == "off":
        return "a crash of the machine may lose or damage everything (fsync is off)"
    if _setting(link, "synchronous_commit") == "off":
        return "a crash may lose what was acknowledged in the last moments (synchronous_commit is off)"
    if _standbys(link) and (unwaited := _unwaited(link)):
        return f"everything that was acknowledged; a fail-over to a standby may lose the last moments ({unwaited})"
    return "everything that was acknowledged"


def _standbys(link: ServerConnection) -> int:
    [[standbys]] = link.execute("SELECT count(*) FROM pg_catalog.pg_stat_replication").fetchall()
    return int(standbys)


def _unwaited(link: ServerConnection) -> str:
    """Return the setting that keeps commits from waiting for a standby, if there is one."""
    if not _setting(link, "synchronous_standby_names"):
        return "synchronous_standby_names is empty"
    return "synchronous_commit is local" if _setting(link, "synchronous_commit") == "local" else ""


def _warnings(link: ServerConnection, address: Address) -> list[str]:
    found = []
    if link.execute("SELECT pg_is_in_recovery()").fetchall() == [(True,)]:
        found.append("it is a standby, which can only be read: name the primary, or all hosts, one,two, in the address")
    elif _setting(link, "synchronous_standby_names") and not (_standbys(link) or _unwaited(link)):
        found.append("every commit waits for a standby (synchronous_standby_names), and none is connected")
    if _setting(link, "fsync") == "off":
        found.append("fsync is off: turn it on, or a power cut may damage the database")
    if _setting(link, "full_page_writes") == "off":
        found.append("full_page_writes is off: turn it on, or a power cut may damage the database")
    if _setting(link, "synchronous_commit") == "off":
        found.append(f'synchronous_commit is off: ALTER ROLE "{link.info.user}" SET synchronous_commit = on')
    if _setting(link, "autovacuum") == "off":
        found.append("autovacuum is off: turn it on, or the tables that move grow without end")
    return [*found, *_crowded(link, address)]


def _crowded(link: ServerConnection, address: Address) -> Iterator[str]:
    """Yield a warning for each thing that fills the server."""
    [[oldest]] = link.execute(_OLDEST).fetchall()
    if oldest is not None and oldest > OLD:
        yield f"a transaction has been open for {oldest} s: what laneway deletes cannot be vacuumed until it ends"
    for name, rows in _dead(link, address).items():
        if name in BUSY and rows > MANY:
            yield f"table {name} has {rows:,} dead rows: look for long transactions, and at autovacuum_naptime"
    [[taken, most]] = link.execute(_TAKEN).fetchall()
    if taken > most * CROWDED:
        yield f"{taken} of {most} connections are taken: raise max_connections, or put a pooler before the server"
