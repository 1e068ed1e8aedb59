-- Control of runs by operators.

-- name: number
-- Find the number of a run. Index: the unique id.
SELECT number FROM run WHERE id = ?;

-- name: changed
-- Count the runs that a call has changed among these numbers, and return the last one. Index: control_call, which
-- covers it.
SELECT count(*), max(number) FROM control WHERE call = ? AND number > ? AND number <= ?;

-- name: changed_runs
-- Read the runs that a call has changed, oldest first, with their states. Index: control_call, then the primary keys.
SELECT id, state FROM control CROSS JOIN record ON record.number = control.number WHERE call = ? ORDER BY control.number;

-- name: unended
-- Find runs that have not ended, oldest first: as many as wanted, plus the number of running runs that have a cancel
-- request already. It reads the shelves, the leases and the index outcome_kept, and nothing that has ended.
SELECT found.number FROM (
    SELECT number FROM ready WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM parked WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM held WHERE coalesce(:state, 'pending') = 'pending' AND NOT paused
    UNION ALL SELECT number FROM due WHERE coalesce(:state, 'pending') = 'pending'
    UNION ALL SELECT number FROM lease WHERE coalesce(:state, 'running') = 'running'
    UNION ALL SELECT number FROM outcome INDEXED BY outcome_kept
    WHERE ended_at IS NULL AND state <> 'pending' AND state = coalesce(:state, state)
) AS found CROSS JOIN run ON run.number = found.number
WHERE found.number > :after AND found.number <= :until
    AND (:task IS NULL OR task = :task) AND (:lane IS NULL OR lane = :lane)
    AND (:user IS NULL OR user = :user) AND (:session IS NULL OR coalesce(session, ties ->> '$.session') = :session)
ORDER BY found.number LIMIT :limit + (SELECT count(*) FROM lease WHERE request = 'cancel');
