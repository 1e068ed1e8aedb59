-- Control of runs by operators.

-- name: number
-- Find the number of a run. Index: the unique id.
SELECT number FROM run WHERE id = $1;

-- name: changed
-- Count the runs that a call has changed among these numbers, and return the last one. Index: control_call.
SELECT count(*), max(number) FROM control WHERE call = $1 AND number > $2 AND number <= $3;

-- name: changed_runs
-- Read the runs that a call has changed, oldest first, with their states. Index: control_call, then the primary keys.
SELECT id, state FROM control JOIN record ON record.number = control.number WHERE call = $1 ORDER BY control.number;

-- name: unended
-- Find runs that have not ended, oldest first: as many as wanted, plus the number of running runs that have a cancel
-- request already. It reads the shelves, the leases and the index outcome_kept, and nothing that has ended. OFFSET 0
-- keeps the planner from beginning with the runs.
SELECT found.number FROM (
    SELECT number FROM ready WHERE coalesce(:state::text, 'pending') = 'pending'
    UNION ALL SELECT number FROM parked WHERE coalesce(:state::text, 'pending') = 'pending'
    UNION ALL SELECT number FROM held WHERE coalesce(:state::text, 'pending') = 'pending' AND paused = 0
    UNION ALL SELECT number FROM due WHERE coalesce(:state::text, 'pending') = 'pending'
    UNION ALL SELECT number FROM lease WHERE coalesce(:state::text, 'running') = 'running'
    UNION ALL SELECT number FROM outcome
    WHERE ended_at IS NULL AND state <> 'pending' AND state = coalesce(:state::text, state)
) AS found CROSS JOIN LATERAL (
    SELECT task, lane, "user", session, ties FROM run WHERE run.number = found.number OFFSET 0
) AS run
WHERE found.number > :after AND found.number <= :until
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY found.number LIMIT :limit + (SELECT count(*) FROM lease WHERE request = 'cancel');
