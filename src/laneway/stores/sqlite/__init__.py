"""The SQLite store: one file, several processes, nothing to install.

The verbs are those of `stores.tables`. Where to look: `store` what users open, `connection` opening and migrating the
file, `database` how it executes statements, `writer` and `reader` the threads, `write_lock` whose transaction is next,
`log_sync` and `checkpoints` the write-ahead log, `wake_sockets` wake-ups between processes, `schema/` the tables,
`sql/` every statement.
"""
