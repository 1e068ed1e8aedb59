-- What is asked of runs from outside, and what their attempts leave for the next.

-- `request` is 'cancel' or 'pause' once that was asked of the run, `timed_out` is 1 once its time-out was decided.
ALTER TABLE lease ADD COLUMN request TEXT;
ALTER TABLE lease ADD COLUMN timed_out INTEGER NOT NULL DEFAULT 0;
CREATE INDEX lease_requested ON lease (holder) WHERE request IS NOT NULL;

ALTER TABLE run ADD COLUMN retry_of TEXT;

-- Paused runs are on no shelf: their row in `outcome` is where they are found.
CREATE INDEX outcome_kept ON outcome (state, number) WHERE ended_at IS NULL AND state <> 'pending';
-- Runs that were paused and resumed before they were ever started: their logs do not begin with `started`.
CREATE INDEX outcome_resumed ON outcome (fence) WHERE fence = 0 AND state = 'pending';

-- What the last checkpoint of a run saved, as JSON.
CREATE TABLE checkpoint (
    number INTEGER PRIMARY KEY,
    state TEXT NOT NULL
) STRICT;

-- The newest call that changed a run from outside, so that it can be answered again.
CREATE TABLE control (
    number INTEGER PRIMARY KEY,
    call TEXT NOT NULL
) STRICT;
CREATE INDEX control_call ON control (call, number);

DROP VIEW record;
CREATE VIEW record AS
SELECT
    run.number, run.id, run.task, run.args, run.lane, run.user, run.session, run.priority,
    iif(lease.number IS NULL, coalesce(outcome.state, 'pending'), 'running') AS state,
    coalesce(lease.attempt, outcome.attempt, 1) AS attempt,
    coalesce(lease.fence, outcome.fence, 0) AS fence,
    coalesce(outcome.crashes, 0) AS crashes,
    run.accepted_at,
    coalesce(outcome.due_at, run.due_at) AS due_at,
    coalesce(lease.started_at, outcome.started_at) AS started_at,
    outcome.ended_at, outcome.result, outcome.error, outcome.reason,
    coalesce(lease.died, lease.holder) AS worker,
    lease.request, run.retry_of
FROM run
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number;
