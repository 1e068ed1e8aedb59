-- What `laneway doctor` reads about time.

-- name: newest
-- Read the latest instant of each kind. Index: the primary key of run from its end, outcome_age; it reads all leases
-- and all workers.
SELECT max(accepted_at) FROM run WHERE number > (SELECT max(number) FROM run) - 1000
UNION ALL SELECT (SELECT max(ended_at) FROM outcome INDEXED BY outcome_age
    WHERE state = ending.value AND ended_at IS NOT NULL)
FROM json_each('["succeeded", "failed", "cancelled", "dropped"]') AS ending
UNION ALL SELECT max(started_at) FROM lease
UNION ALL SELECT max(renewed_at) FROM worker
UNION ALL SELECT renewed_at FROM heartbeat WHERE one = 1;

-- name: set_back
-- Return how far the clock was set back between two of the newest thousand acceptances. Index: the primary key, from
-- its end.
SELECT max(before - accepted_at) FROM (
    SELECT accepted_at, lag(accepted_at) OVER (ORDER BY number) AS before
    FROM run WHERE number > (SELECT max(number) FROM run) - 1000
);
