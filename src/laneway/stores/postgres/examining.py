"""Examining a store from outside: what it is, how it fares, and what an operator should change. It changes nothing."""

from __future__ import annotations

from contextlib import closing

import psycopg

from laneway.errors import NotAStore
from laneway.ports.upkeep import Examination
from laneway.stores.postgres.address import Address
from laneway.stores.postgres.connection import Link, connect_bare, layout_of, newest_layout
from laneway.stores.postgres.database import PostgresDatabase
from laneway.stores.postgres.session import begin_to_read, set_up
from laneway.stores.postgres.trouble import meant
from laneway.stores.tables import checking, reading


def examine(address: Address, *, deep: bool) -> Examination:
    """Return how the store fares; see `UpkeepStore.examine`."""
    with closing(connect_bare(address)) as link:
        try:
            layout = layout_of(link, address)
            if not layout:
                raise NotAStore(
                    f"{address.shown} has no schema {address.schema}; a store is made when a scheduler first uses it"
                )
            if setting := set_up(address):
                link.execute(setting.encode())
            link.execute(begin_to_read(address).encode())
            return _examined(link, address, layout, deep=deep)
        except psycopg.Error as error:
            raise meant(error, address) from error


def _examined(link: Link, address: Address, layout: int, *, deep: bool) -> Examination:
    db = PostgresDatabase(link, lambda: 0)
    current = layout == newest_layout()
    [[size]] = link.execute(_SIZE, (address.schema,)).fetchall()
    newest = db.execute("examining.newest").fetchall() if current else []
    [[back]] = db.execute("examining.set_back").fetchall() if current else [[0]]
    return Examination(
        engine=f"PostgreSQL {link.info.parameter_status('server_version')}",
        layout=layout,
        newest_layout=newest_layout(),
        kept=_kept(link),
        warnings=_warnings(link, address),
        sizes={"tables": int(size)},
        # An older layout may lack what these ask for; it is migrated first.
        findings=checking.look(db) if current and deep else None,
        runs=reading.count(db) if current else None,
        workers=reading.workers(db) if current else None,
        newest_at=max((at for (at,) in newest if at), default=None),
        set_back=max(0, back or 0) if current else None,
    )


_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint FROM pg_catalog.pg_class"
    " JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s::text AND relkind = 'r'"
)
_OLDEST = (
    "SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::int FROM pg_catalog.pg_stat_activity"
    " WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()"
)


def _setting(link: Link, name: str) -> str:
    [[value]] = link.execute("SELECT current_setting(%s::text)", (name,)).fetchall()
    return str(value)


def _kept(link: Link) -> str:
    if _setting(link, "fsync") == "off":
        return "a crash of the machine may lose or damage everything (fsync is off)"
    if _setting(link, "synchronous_commit") == "off":
        return "a crash may lose what was acknowledged in the last moments (synchronous_commit is off)"
    return "everything that was acknowledged"


def _warnings(link: Link, address: Address) -> list[str]:
    found = []
    if _setting(link, "fsync") == "off":
        found.append("fsync is off: turn it on, or a power cut may damage the database")
    if _setting(link, "full_page_writes") == "off":
        found.append("full_page_writes is off: turn it on, or a power cut may damage the database")
    if _setting(link, "synchronous_commit") == "off":
        found.append(f'synchronous_commit is off: ALTER ROLE "{link.info.user}" SET synchronous_commit = on')
    if _setting(link, "autovacuum") == "off":
        found.append("autovacuum is off: turn it on, or the tables that move grow without end")
    [[oldest]] = link.execute(_OLDEST).fetchall()
    if oldest is not None and oldest > 300:
        found.append(
            f"a transaction has been open for {oldest} s: what laneway deletes cannot be vacuumed until it ends"
        )
    return found
