"""What SQLite and PostgreSQL share: the same tables, and every verb of `ports.Store` over them.

The core's own rules run here, inside a transaction that is alone with the tables (`sql.database`). Each of the two
stores adds what differs: the text of the statements, connections, the writer's thread, and how other processes are
notified.

Where to look: `store` lists the verbs. `verbs` change something, `reads` only read, `transfer` moves a store to
another, `upkeep` prunes and checks. `rules` applies the core's decisions, `state` holds what one transaction reads and
changes, `rows` knows the columns of each table, `sql` the statements.
"""
