"""What SQLite and PostgreSQL share: the same tables, and every verb of `ports.Store` over them.

The core's own rules run here, inside a transaction that is alone with the tables (`database`). A store adds what
differs: the texts of the statements, connections, the writer's thread and how others hear of what it wrote.

Where to look: `store` the verbs, `transaction` one atomic piece of work, `shelves` and `ledgers` the core's rules over
tables, `submitting` and `stepping` the two hot verbs, `steering` what is asked of runs from outside, `liveness` who is
alive, `ruling` what operators set, `reading`, `explaining` and `waiting` what people ask, `desk` and `writing` the
threads.
"""
