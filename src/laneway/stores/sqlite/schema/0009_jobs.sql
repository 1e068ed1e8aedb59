-- Jobs, and what became of their fires.

-- `spec` is what somebody said of a job and `state` what became of it, as JSON; the columns before them are copies that
-- jobs are found by. `fire_at` is when it is due, NULL for one that is not going to fire.
CREATE TABLE job (
    id TEXT PRIMARY KEY,
    owner TEXT,
    name TEXT NOT NULL,
    task TEXT NOT NULL,
    source TEXT NOT NULL,        -- 'call', 'code' or 'file'
    is_on INTEGER NOT NULL,      -- whether it fires
    fire_at INTEGER,
    version INTEGER NOT NULL,
    call TEXT NOT NULL,          -- the newest call from outside that changed it
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    spec TEXT NOT NULL,
    state TEXT NOT NULL
) STRICT;
CREATE INDEX job_due ON job (fire_at, id) WHERE fire_at IS NOT NULL;
CREATE INDEX job_listed ON job (name, id);
-- An owner has one job of a name, and so has nobody.
CREATE UNIQUE INDEX job_owned ON job (owner, name) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX job_unowned ON job (name) WHERE owner IS NULL;

-- A fire, or a stretch of fires with one fate. `nth` counts a job's records from 1; a run's is found by `run_id`.
CREATE TABLE fire (
    job TEXT NOT NULL,
    nth INTEGER NOT NULL,
    run_id TEXT,
    record TEXT NOT NULL,        -- as JSON
    PRIMARY KEY (job, nth)
) STRICT, WITHOUT ROWID;
CREATE INDEX fire_run ON fire (job, run_id) WHERE run_id IS NOT NULL;

-- The latest time that a job was written at: a clock that is behind it was set back.
ALTER TABLE counter ADD COLUMN jobs_at INTEGER NOT NULL DEFAULT 0;
