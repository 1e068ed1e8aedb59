-- What people read. Each verb reads in one snapshot. The view `record` has a column for each field of a run.

-- name: by_id
-- Read the run of an id. Index: the unique id, then the primary keys.
SELECT {run.fields} FROM record WHERE id = $1;

-- name: by_prefix
-- Find the ids that begin with this prefix. Index: the unique id, as a range.
SELECT id FROM run WHERE id >= $1 AND id < $2;

-- name: by_numbers
-- Read these runs, newest first. Index: the primary keys.
SELECT {run.fields} FROM record WHERE number = ANY (translate($1, '[]', '{}')::bigint[]) ORDER BY number DESC;

-- name: any
-- Find runs of any state, newest first. Index: the primary key, from its end.
SELECT number FROM run
WHERE number < :before
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY number DESC LIMIT :limit;

-- name: running
-- Find running runs, newest first. Index: the primary key of lease, from its end.
SELECT lease.number FROM lease LEFT JOIN run ON run.number = lease.number
WHERE lease.number < :before
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY lease.number DESC LIMIT :limit;

-- name: ended
-- Find runs that ended in a state other than `succeeded`, newest first. Index: outcome_unlucky, from its end.
SELECT outcome.number FROM outcome LEFT JOIN run ON run.number = outcome.number
WHERE state = :state::text AND state <> 'succeeded' AND ended_at IS NOT NULL AND outcome.number < :before
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY outcome.number DESC LIMIT :limit;

-- name: succeeded
-- Find runs that have succeeded, newest first. Index: the primary key of outcome, from its end: few of the runs that
-- were settled came to anything else.
SELECT outcome.number FROM outcome LEFT JOIN run ON run.number = outcome.number
WHERE state = :state::text AND outcome.number < :before
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY outcome.number DESC LIMIT :limit;

-- name: kept
-- Find runs that are neither on a shelf nor leased nor ended (paused ones), newest first. Index: outcome_kept, from its
-- end.
SELECT outcome.number FROM outcome LEFT JOIN run ON run.number = outcome.number
WHERE state = :state::text AND ended_at IS NULL AND state <> 'pending' AND outcome.number < :before
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY outcome.number DESC LIMIT :limit;

-- name: pending
-- Find pending runs, newest first. It reads all shelves: their entries are narrow, and they hold pending runs only.
SELECT shelf.number FROM (
    SELECT number FROM ready UNION ALL SELECT number FROM parked
    UNION ALL SELECT number FROM held WHERE paused = 0 UNION ALL SELECT number FROM due
) AS shelf LEFT JOIN run ON run.number = shelf.number
WHERE shelf.number < :before
    AND (:task::text IS NULL OR task = :task::text) AND (:lane::text IS NULL OR lane = :lane::text)
    AND (:user::text IS NULL OR "user" = :user::text)
    AND (:session::text IS NULL OR coalesce(session, ties::json ->> 'session') = :session::text)
ORDER BY shelf.number DESC LIMIT :limit;

-- name: count
-- Count the runs by state. It reads the shelves, the leases and the indexes outcome_kept and outcome_age.
SELECT 'pending', (SELECT count(*) FROM ready) + (SELECT count(*) FROM parked)
    + (SELECT count(*) FROM held WHERE paused = 0) + (SELECT count(*) FROM due)
UNION ALL SELECT 'running', count(*) FROM lease
UNION ALL SELECT state, count(*) FROM outcome WHERE ended_at IS NULL AND state <> 'pending'
GROUP BY state
UNION ALL SELECT state, count(*) FROM outcome WHERE ended_at IS NOT NULL GROUP BY state;

-- name: session_names
-- Return the names of sessions that have this prefix and come after a name, in order. Index: the primary key, as a
-- range.
SELECT name FROM session WHERE name > $1 AND name >= $2 AND name < $3 ORDER BY name LIMIT $4;

-- name: log
-- Read what is needed to show a run's events: its result and, if it is running, its lease. Index: the unique id.
SELECT run.number, result, lease.attempt, coalesce(died, holder), lease.started_at, lease.events, noted
FROM run LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN LATERAL (SELECT * FROM lease WHERE lease.number = run.number OFFSET 0) AS lease ON true
WHERE run.id = $1;

-- name: chunks
-- Read a run's chunks from the one that holds an event number on. The last chunk of an ended run is stored with its
-- outcome. Index: the primary key, then the primary key of outcome.
SELECT * FROM (
    SELECT seq, body FROM event
    WHERE number = $1 AND seq >= coalesce((SELECT max(seq) FROM event WHERE number = $1 AND seq <= $2::bigint), 0)
    ORDER BY seq
) AS chunk
UNION ALL
SELECT events - json_array_length(log::json) + 1, log FROM outcome WHERE number = $1 AND log IS NOT NULL;

-- name: workers
-- Read the incarnations, oldest first, with the number of their leases. It reads the table and all leases.
SELECT incarnation, renewed_at, coalesce(held, 0), idle, "left", short
FROM worker LEFT JOIN (SELECT holder, count(*) AS held FROM lease GROUP BY holder) AS load ON holder = worker.id
ORDER BY number;
