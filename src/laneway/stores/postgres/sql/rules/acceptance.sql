-- Reads for a submission that is not simply accepted.

-- name: state
-- Read the state of a run. Index: the unique id, then the primary keys.
SELECT state FROM record WHERE id = $1;

-- name: oldest
-- Find the oldest runs of a lane that were never started, wait, and are no follow-ups. It reads the shelves: what waits
-- in a lane that has a bound is not much.
SELECT number FROM (
    SELECT number FROM ready WHERE lane = $1 AND kind & 1 = 0
    UNION ALL SELECT number FROM parked WHERE lane = $1 AND kind & 1 = 0
    UNION ALL SELECT number FROM held
    WHERE (SELECT lane FROM run WHERE run.number = held.number) = $1 AND kind & 1 = 0 AND paused = 0
    UNION ALL SELECT number FROM due WHERE (SELECT lane FROM run WHERE run.number = due.number) = $1 AND kind & 1 = 0
) AS waiting
WHERE NOT EXISTS (
    SELECT 1 FROM run WHERE run.number = waiting.number
    AND (run.ties::json ->> 'parent') IS NOT NULL AND (run.ties::json ->> 'call') IS NULL
)
ORDER BY number LIMIT $2;

-- name: known
-- Find which of these ids exist, and their lanes. Index: the unique id.
SELECT run.id, lane
FROM json_array_elements_text($1::json) AS wanted(value)
JOIN run ON run.id = wanted.value;
