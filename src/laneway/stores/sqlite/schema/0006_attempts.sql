-- What a run keeps for its later attempts, what it waits for, and what ties it to other runs.

-- As JSON; most runs have none. The session that a run names without a place in it stands there.
ALTER TABLE run ADD COLUMN ties TEXT;

-- `id` is the order of writing: a memo that takes the place of another is a new row.
CREATE TABLE memo (
    id INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,     -- of the run
    kind TEXT NOT NULL,          -- 'step', 'answer' or 'call'
    name TEXT NOT NULL,
    body TEXT NOT NULL,          -- as JSON
    UNIQUE (number, kind, name)
) STRICT;

-- What a run waits for, or waited for last. `until` is when its first question is answered too late, and `request` what
-- was asked of it before it waited: both only while it waits.
CREATE TABLE wait (
    number INTEGER PRIMARY KEY,
    until INTEGER,
    request TEXT,
    body TEXT NOT NULL           -- as JSON
) STRICT;
CREATE INDEX wait_until ON wait (until, number) WHERE until IS NOT NULL;

-- How many memos it had when it was claimed.
ALTER TABLE lease ADD COLUMN memos INTEGER NOT NULL DEFAULT 0;

-- What is particular about a run that waits is looked up only for one that does.
DROP VIEW record;
CREATE VIEW record AS
SELECT
    run.number, run.id, run.task, run.args, run.lane, run.user, coalesce(run.session, run.ties ->> '$.session') AS session,
    run.priority,
    iif(lease.number IS NULL, coalesce(outcome.state, 'pending'), 'running') AS state,
    coalesce(lease.attempt, outcome.attempt, 1) AS attempt,
    coalesce(lease.fence, outcome.fence, 0) AS fence,
    coalesce(outcome.crashes, 0) AS crashes,
    run.accepted_at,
    coalesce(outcome.due_at, run.due_at) AS due_at,
    coalesce(lease.started_at, outcome.started_at) AS started_at,
    outcome.ended_at, outcome.result, outcome.error, outcome.reason,
    coalesce(lease.died, lease.holder) AS worker,
    CASE WHEN lease.number IS NOT NULL THEN lease.request
    WHEN outcome.state = 'waiting' THEN (SELECT request FROM wait WHERE wait.number = run.number) END AS request,
    run.retry_of,
    (SELECT count(*) FROM message WHERE message.number = run.number) AS messages,
    run.ties,
    CASE WHEN lease.number IS NULL AND outcome.state = 'waiting'
    THEN (SELECT body FROM wait WHERE wait.number = run.number) END AS wait
FROM run
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number;
