"""Files as older versions of laneway left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from laneway.stores.sqlite import connection

# Columns of layouts before the fourth that are gone or mean something else now, as expressions over the newest.
OLD = {
    ("run", "max_concurrent"): "arrival ->> '$.rule.max_concurrent'",
    ("session", "max_concurrent"): "coalesce(rest ->> '$.given.max_concurrent', 1)",
    ("session", "admitted"): "json_array_length(admitted)",
    ("session", "unstarted"): "unstarted > 0",
}
# Renamed or removed since.
RENAMED = {("session", "unstarted_then"): "unstarted", ("session", "passed"): "0"}
TABLES = {"held_row": "held"}


def as_layout(number: int, newest: Path, path: Path) -> None:
    """Make a file of an older layout, with all of a newest one that it has a place for."""
    scripts = sorted(files("laneway.stores.sqlite").joinpath("schema").iterdir(), key=lambda file: file.name)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for script in scripts[:number]:
            db.executescript(script.read_text(encoding="utf-8"))
        db.execute("ATTACH ? AS newest", (str(newest),))
        kept = {name for (name,) in db.execute("SELECT name FROM newest.sqlite_schema")}
        for (table,) in db.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'").fetchall():
            if TABLES.get(table, table) not in kept:
                continue  # it was dropped since
            names = [str(row[1]) for row in db.execute(f"PRAGMA main.table_info({table})")]
            old = RENAMED | OLD if number < 4 else RENAMED
            values = ", ".join(old.get((table, name), f'"{name}"') for name in names)
            columns = ", ".join(f'"{name}"' for name in names)
            db.execute(f"DELETE FROM main.{table}")
            db.execute(f"INSERT INTO main.{table} ({columns}) SELECT {values} FROM newest.{TABLES.get(table, table)}")
        db.execute(f"PRAGMA main.application_id = {connection.APPLICATION_ID}")
        db.execute(f"PRAGMA main.user_version = {number}")
