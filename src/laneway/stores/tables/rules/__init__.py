"""The core's rules applied to rows: what happens to a run, and to the runs that depend on it."""
