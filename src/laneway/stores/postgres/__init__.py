"""The PostgreSQL store: many machines, and submissions inside your own transactions.

The verbs are those of `stores.tables`. Where to look: `address` and `connection` how it is reached, opened and
migrated, `session` what holds for every transaction, `database` how statements are done, `writer`, `reader` and
`hearing` the threads, `trouble` what errors mean, `schema/` the tables, `sql/` every statement.
"""

from laneway.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
