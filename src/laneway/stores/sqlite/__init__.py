"""The SQLite store: one file, several processes, nothing to install.

The verbs are those of `stores.tables`. Where to look: `connection` opening and migrating the file, `database` how it
does statements, `writer` and `reader` the threads, `wakeups` hints between processes, `turn` whose transaction is next,
`checkpoints` the write-ahead log, `schema/` the tables, `sql/` every statement.
"""

from laneway.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
