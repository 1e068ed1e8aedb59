"""Schemas as older versions of laneway left them."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from laneway.stores.postgres.server import connection
from laneway.stores.postgres.server.address import Address

# Other names than in the newest layout: tables, and columns by table.
TABLES = {"held_row": "held"}
COLUMNS = {("session", "unstarted_then"): "unstarted"}


def as_layout(number: int, url: str) -> None:
    """Turn a store that is not in use into an older one, with all data that the older layout has a place for."""
    address = Address.parse(url)
    schema, newest = sql.Identifier(address.schema), sql.Identifier("newest")
    with connection.connect_bare(address) as link, link.transaction():
        link.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(schema, newest))
        link.execute(sql.SQL("CREATE SCHEMA {0}; SET LOCAL search_path TO {0}").format(schema))
        scripts = connection._layouts()
        for version in range(1, number + 1):
            link.execute(scripts[version].encode())
        for table in connection._tables(link, address):
            _copy(link, address.schema, table)
        link.execute("UPDATE layout SET version = %s", (number,))
        link.execute("SELECT setval('writes', (SELECT last_value FROM newest.writes))")
        link.execute("DROP SCHEMA newest CASCADE")


def _copy(link: connection.ServerConnection, schema: str, table: str) -> None:
    columns = _columns(link, schema, table)
    newest = TABLES.get(table, table)
    there = set(_columns(link, "newest", newest))
    taken = {name: COLUMNS.get((table, name), name) for name in columns}
    taken = {name: source for name, source in taken.items() if source in there}
    link.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
    link.execute(
        sql.SQL("INSERT INTO {0} ({1}) OVERRIDING SYSTEM VALUE SELECT {2} FROM newest.{3}").format(
            sql.Identifier(table), _named(list(taken)), _named(list(taken.values())), sql.Identifier(newest)
        )
    )


def _columns(link: connection.ServerConnection, schema: str, table: str) -> list[str]:
    query = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND is_generated = 'NEVER'"
    )
    return [name for (name,) in link.execute(query, (schema, table))]


def _named(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows that a statement finds in the schema of a store."""
    address = Address.parse(url)
    with psycopg.connect(address.conninfo, options=f"-c search_path={address.schema}") as link:
        return link.execute(query.encode()).fetchall()
