-- Reads for a submission that is not simply accepted.

-- name: state
-- Read the state of a run. Index: the unique id, then the primary keys.
SELECT state FROM record WHERE id = ?;

-- name: oldest
-- Find the oldest runs of a lane that were never started, wait, and are no follow-ups. It reads the shelves: what waits
-- in a lane that has a bound is not much.
SELECT number FROM (
    SELECT number FROM ready WHERE lane = ?1 AND NOT kind & 1
    UNION ALL SELECT number FROM parked WHERE lane = ?1 AND NOT kind & 1
    UNION ALL SELECT number FROM held CROSS JOIN run USING (number) WHERE run.lane = ?1 AND NOT kind & 1 AND NOT paused
    UNION ALL SELECT number FROM due CROSS JOIN run USING (number) WHERE run.lane = ?1 AND NOT kind & 1
) AS waiting
WHERE NOT EXISTS (
    SELECT 1 FROM run WHERE run.number = waiting.number
    AND run.ties ->> '$.parent' IS NOT NULL AND run.ties ->> '$.call' IS NULL
)
ORDER BY number LIMIT ?2;

-- name: known
-- Find which of these ids exist, and their lanes. Index: the unique id.
SELECT run.id, lane FROM json_each(?) AS wanted CROSS JOIN run ON run.id = wanted.value;
