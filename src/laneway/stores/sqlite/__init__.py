"""The SQLite store: one file, several processes, nothing to install.

Where to look: `store` the verbs, `transaction` one atomic piece of work, `shelves` and `ledgers` the core's rules over
tables, `submitting` and `stepping` the two hot verbs, `steering` what is asked of runs from outside, `liveness` who is
alive, `ruling` what operators set, `reading`, `explaining` and `waiting` what people ask, `desk` and `writer` the
threads, `wakeups` hints between processes, `checkpoints` the write-ahead log, `schema/` the tables, `sql/` every
statement.
"""

from laneway.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
