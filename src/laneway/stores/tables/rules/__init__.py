"""The core's rules over the tables: what happens to a run, and to the runs that depend on it."""
