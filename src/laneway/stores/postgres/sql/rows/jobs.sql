-- Jobs, those that are due, and the records of their fires.

-- name: job
-- Read a job. Index: the primary key.
SELECT id, spec, state, created_at, changed_at, version, call FROM job WHERE id = $1;

-- name: jobs
-- Read these jobs. Index: the primary key.
SELECT job.id, spec, state, created_at, changed_at, version, call
FROM json_array_elements_text($1::json) AS wanted(value)
JOIN job ON job.id = wanted.value;

-- name: listed
-- Read the jobs that match, by name. Index: job_listed; it reads jobs that do not fit, too.
SELECT id, spec, state, created_at, changed_at, version, call FROM job
WHERE (name, id) > (:name, :id) AND (:task::text IS NULL OR task = :task::text)
    AND (:source::text IS NULL OR source = :source::text) AND (:on::int IS NULL OR is_on = :on::int)
ORDER BY name, id LIMIT :limit;

-- name: owned
-- Read the jobs of an owner that match, by name. Index: job_owned; it reads others of that owner, too.
SELECT id, spec, state, created_at, changed_at, version, call FROM job
WHERE owner = :owner::text AND owner IS NOT NULL AND name >= :name AND (name, id) > (:name, :id)
    AND (:task::text IS NULL OR task = :task::text)
    AND (:source::text IS NULL OR source = :source::text) AND (:on::int IS NULL OR is_on = :on::int)
ORDER BY name LIMIT :limit;

-- name: named
-- Read the jobs of a name or an id that match. Index: job_listed, and the primary key.
SELECT id, spec, state, created_at, changed_at, version, call FROM job
WHERE id IN (SELECT id FROM job WHERE name = :named UNION SELECT :named)
    AND (name, id) > (:name, :id) AND (:owner::text IS NULL OR owner = :owner::text)
    AND (:task::text IS NULL OR task = :task::text)
    AND (:source::text IS NULL OR source = :source::text) AND (:on::int IS NULL OR is_on = :on::int)
ORDER BY name, id LIMIT :limit;

-- name: owners_own
-- Find the job that has this owner and name. Index: job_owned.
SELECT id FROM job WHERE owner = $1 AND owner IS NOT NULL AND name = $2;

-- name: nobodys_own
-- Find the job that has this name and no owner. Index: job_unowned.
SELECT id FROM job WHERE owner IS NULL AND name = $1;

-- name: put
-- Write a job that was added or changed by a call. Index: the primary key.
INSERT INTO job (id, owner, name, task, source, is_on, fire_at, version, call, created_at, changed_at, spec, state)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::int, $7::bigint, $8::bigint, $9::text, $10::bigint,
    $11::bigint, $12::text, $13::text)
ON CONFLICT (id) DO UPDATE SET
    owner = excluded.owner, name = excluded.name, task = excluded.task, source = excluded.source,
    is_on = excluded.is_on, fire_at = excluded.fire_at, version = excluded.version, call = excluded.call,
    created_at = excluded.created_at, changed_at = excluded.changed_at, spec = excluded.spec, state = excluded.state;

-- name: move
-- Write the state of a job after a fire, or after the end of its run. Index: the primary key.
UPDATE job SET is_on = $1, fire_at = $2, version = $3, state = $4 WHERE id = $5;

-- name: remove
-- Delete a job. Index: the primary key.
DELETE FROM job WHERE id = $1::text;

-- name: note_time
-- Remember the latest time at which a job was written. Index: the primary key.
UPDATE counter SET jobs_at = greatest(jobs_at, $1) WHERE one = 1;

-- name: set_time
-- Set the latest time at which a job was written. Index: the primary key.
UPDATE counter SET jobs_at = $1 WHERE one = 1;

-- name: soonest
-- Return the fire time of the job that is due first. Index: the head of job_due.
SELECT min(fire_at) FROM job WHERE fire_at IS NOT NULL;

-- name: due
-- Read the jobs that are due, the longest due first. Index: job_due, of which it reads nothing else.
SELECT id, spec, state, created_at, changed_at, version, call FROM job
WHERE fire_at IS NOT NULL AND fire_at <= $1 AND (fire_at, id) > ($2, $3) ORDER BY fire_at, id LIMIT $4;

-- name: times
-- Return the next fire time that is not due yet, and the latest time at which a job was written. Index: job_due, and
-- the primary key.
SELECT (SELECT min(fire_at) FROM job WHERE fire_at IS NOT NULL AND fire_at > $1), jobs_at
FROM counter WHERE one = 1;

-- name: fires
-- Read a job's records, newest first. Index: the primary key.
SELECT record FROM fire WHERE job = $1 AND nth < $2 ORDER BY nth DESC LIMIT $3;

-- name: newest_fires
-- Read the newest record of each of these jobs. Index: the primary key.
SELECT job, record
FROM json_array_elements_text($1::json) AS wanted(value)
JOIN fire ON job = wanted.value AND nth = (SELECT max(nth) FROM fire WHERE job = wanted.value);

-- name: fired
-- Find which of these runs, each given with its job, that job has a record of. Index: fire_run.
SELECT job, run_id
FROM json_array_elements($1::json) AS wanted(value)
JOIN fire
ON job = wanted.value ->> 0 AND run_id = wanted.value ->> 1 AND run_id IS NOT NULL;

-- name: put_fire
-- Write a record, or overwrite the record of a fire that has gone on. Index: the primary key.
INSERT INTO fire (job, nth, run_id, record) VALUES ($1::text, $2::bigint, $3::text, $4::text)
ON CONFLICT (job, nth) DO UPDATE SET run_id = excluded.run_id, record = excluded.record;

-- name: drop_fires
-- Delete the records of a job up to a number. Index: the primary key.
DELETE FROM fire WHERE job = $1::text AND nth <= $2::bigint;

-- name: run_ids
-- Read the ids of these runs. Index: the primary key.
SELECT run.number, run.id
FROM run WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);
