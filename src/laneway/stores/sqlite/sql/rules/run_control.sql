-- Runs that have not ended, as control and session policies find and change them.

-- name: steered
-- Read these runs as `ControlledRun` has them, in this order. Index: the primary keys, and the unique number of
-- outcome.
SELECT coalesce(lease.fence, outcome.fence, 0) > 0, 0, run.number, run.id, task, NULL, lane, user, session, priority, ties,
    lease.number IS NULL AND outcome.state IS 'paused', arrival,
    coalesce(lease.attempt, outcome.attempt, 1), coalesce(crashes, 0),
    coalesce(lease.fence, outcome.fence, 0), coalesce(lease.events, outcome.events, 0), NULL, NULL, 0, 0,
    coalesce(died, holder, ''), coalesce(lease.started_at, outcome.started_at), coalesce(noted, 1),
    coalesce(lease.request, wait.request), coalesce(cleared, 0), wait.body, iif(lease.number IS NULL, coalesce(outcome.state, 'pending'), 'running'), holder, died, rank,
    coalesce(outcome.due_at, run.due_at), error, reason, control.call, ended_at
FROM json_each(?) AS wanted
CROSS JOIN run ON run.number = wanted.value
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number
LEFT JOIN control ON control.number = run.number
LEFT JOIN wait ON wait.number = run.number;

-- name: numbers
-- Find the numbers of these runs, in this order. Index: the unique id.
SELECT number FROM json_each(?) AS wanted CROSS JOIN run ON run.id = wanted.value ORDER BY wanted.key;

-- name: held
-- Find the runs that a session holds back and that were never started, in order. Index: the primary key.
SELECT number FROM held WHERE session = ? AND NOT kind & 1 ORDER BY rank, number;

-- name: future
-- Find the runs of a session that were never started and are either not due yet or paused outside all shelves. Index:
-- due_session, and outcome_kept, of which it reads all that is paused.
SELECT number FROM (
    SELECT number, rank FROM due INDEXED BY due_session WHERE session = ?1 AND session IS NOT NULL AND kind = 0
    ORDER BY rank, number
)
UNION ALL
SELECT outcome.number FROM outcome INDEXED BY outcome_kept CROSS JOIN run ON run.number = outcome.number
WHERE state = 'paused' AND ended_at IS NULL AND state <> 'pending' AND fence = 0 AND session = ?1;

-- name: request
-- Write the request on a running run, and the number of its events. Index: the primary key.
UPDATE lease SET request = ?, events = ?, noted = 1 WHERE number = ?;

-- name: clear
-- Mark a running run: its unread messages are dropped when it ends. Index: the primary key.
UPDATE lease SET cleared = 1 WHERE number = ?;

-- name: remember
-- Write which call changed a run. Index: the primary key.
INSERT INTO control (number, call) VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET call = excluded.call;

-- name: forget
-- Delete the mark of the call that changed a run. Index: the primary key.
DELETE FROM control WHERE number = ?;
