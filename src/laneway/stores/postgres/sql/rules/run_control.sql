-- Runs that have not ended, as control and session policies find and change them.

-- name: steered
-- Read these runs as `ControlledRun` has them, in this order. Index: the primary keys, and the primary key of outcome.
SELECT (coalesce(lease.fence, outcome.fence, 0) > 0)::int, 0, run.number, run.id, task, NULL, lane, "user", session,
    priority, ties, lease.number IS NULL AND outcome.state IS NOT DISTINCT FROM 'paused', arrival,
    coalesce(lease.attempt, outcome.attempt, 1), coalesce(crashes, 0),
    coalesce(lease.fence, outcome.fence, 0), coalesce(lease.events, outcome.events, 0), NULL, NULL, 0, 0,
    coalesce(died, holder, ''), coalesce(lease.started_at, outcome.started_at), coalesce(noted, 1),
    coalesce(lease.request, wait.request), coalesce(cleared, 0), wait.body,
    CASE WHEN lease.number IS NULL THEN coalesce(outcome.state, 'pending') ELSE 'running' END, holder, died, rank,
    coalesce(outcome.due_at, run.due_at), error, reason, control.call, ended_at
FROM unnest(translate($1, '[]', '{}')::bigint[]) WITH ORDINALITY AS wanted(value, key)
JOIN run ON run.number = wanted.value
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number
LEFT JOIN control ON control.number = run.number
LEFT JOIN wait ON wait.number = run.number
ORDER BY wanted.key;

-- name: numbers
-- Find the numbers of these runs, in this order. Index: the unique id.
SELECT number
FROM json_array_elements_text($1::json) WITH ORDINALITY AS wanted(value, key)
JOIN run ON run.id = wanted.value ORDER BY wanted.key;

-- name: held
-- Find the runs that a session holds back and that were never started, in order. Index: the primary key.
SELECT number FROM held WHERE session = $1 AND kind & 1 = 0 ORDER BY rank, number;

-- name: future
-- Find the runs of a session that were never started and are either not due yet or paused outside all shelves. Index:
-- due_session, and outcome_kept, of which it reads all that is paused.
SELECT number FROM (
    SELECT number, rank FROM due WHERE session = $1 AND session IS NOT NULL AND kind = 0
    ORDER BY rank, number
) AS later
UNION ALL
SELECT outcome.number FROM outcome JOIN run ON run.number = outcome.number
WHERE state = 'paused' AND ended_at IS NULL AND state <> 'pending' AND fence = 0 AND session = $1;

-- name: request
-- Write the request on a running run, and the number of its events. Index: the primary key.
UPDATE lease SET request = $1, events = $2, noted = 1 WHERE number = $3;

-- name: clear
-- Mark a running run: its unread messages are dropped when it ends. Index: the primary key.
UPDATE lease SET cleared = 1 WHERE number = $1;

-- name: remember
-- Write which call changed a run. Index: the primary key.
INSERT INTO control (number, call)
VALUES ($1::bigint, $2::text) ON CONFLICT (number) DO UPDATE SET call = excluded.call;

-- name: forget
-- Delete the mark of the call that changed a run. Index: the primary key.
DELETE FROM control WHERE number = $1::bigint;
