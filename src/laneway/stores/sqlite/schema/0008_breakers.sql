-- The circuits of tasks, as `core.queue.circuits` has them. One that is closed and counts nothing is not stored.
CREATE TABLE circuit (
    key TEXT PRIMARY KEY,        -- the task, or the task, a line break and the user
    task TEXT NOT NULL,
    failures INTEGER NOT NULL,   -- in a row
    until INTEGER,               -- open until then, and half open after it
    probe INTEGER,               -- the run that is tried
    fence INTEGER                -- under this lease
) STRICT, WITHOUT ROWID;
CREATE INDEX circuit_open ON circuit (task) WHERE until IS NOT NULL;

-- How many runs are parked behind a circuit, per lane, so that a claim need not look for the sets that exist.
CREATE TABLE broken (
    lane TEXT NOT NULL,
    key TEXT NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (lane, key)
) STRICT, WITHOUT ROWID;
