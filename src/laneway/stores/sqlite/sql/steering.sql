-- Control: what is asked of runs from outside.

-- name: number
-- Find the number of a run. Index: the unique id.
SELECT number FROM run WHERE id = ?;

-- name: steered
-- Read these runs as `Steered` has them, oldest first. Index: the primary keys, and the unique number of outcome.
SELECT coalesce(lease.fence, outcome.fence, 0) > 0, 0, run.number, run.id, task, NULL, lane, user, session, priority,
    max_concurrent, 0, coalesce(lease.attempt, outcome.attempt, 1), coalesce(crashes, 0),
    coalesce(lease.fence, outcome.fence, 0), coalesce(lease.events, outcome.events, 0), NULL,
    coalesce(died, holder, ''), coalesce(lease.started_at, outcome.started_at), coalesce(noted, 1), request,
    iif(lease.number IS NULL, coalesce(outcome.state, 'pending'), 'running'), holder, died, rank,
    coalesce(outcome.due_at, run.due_at), error, control.call
FROM json_each(?) AS wanted
CROSS JOIN run ON run.number = wanted.value
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number
LEFT JOIN control ON control.number = run.number;

-- name: request
-- Write what is requested of a running run, and how many of its events are written. Index: the primary key.
UPDATE lease SET request = ?, events = ?, noted = 1 WHERE number = ?;

-- name: remember
-- Remember the call that changed a run. Index: the primary key.
INSERT INTO control (number, call) VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET call = excluded.call;

-- name: changed
-- Count what a call has changed among these numbers, and find the last of it. Index: control_call, which covers it.
SELECT count(*), max(number) FROM control WHERE call = ? AND number > ? AND number <= ?;

-- name: unended
-- Find runs that have not ended, oldest first: as many as wanted, and as many more as may have been requested to be
-- cancelled before. It reads the shelves, the leases and the index outcome_kept, and nothing that has ended.
SELECT found.number FROM (
    SELECT number FROM ready WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM parked WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM held WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM due WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM lease WHERE coalesce(:state, 'running') = 'running'
    UNION ALL SELECT number FROM outcome INDEXED BY outcome_kept
    WHERE ended_at IS NULL AND state <> 'pending' AND state = coalesce(:state, state)
) AS found CROSS JOIN run ON run.number = found.number
WHERE found.number > :after AND found.number <= :until
    AND (:task IS NULL OR task = :task) AND (:lane IS NULL OR lane = :lane)
    AND (:user IS NULL OR user = :user) AND (:session IS NULL OR session = :session)
ORDER BY found.number LIMIT :limit + (SELECT count(*) FROM lease WHERE request = 'cancel');
