-- Jobs, those that are due, and the records of their fires.

-- name: job
-- Read a job. Index: the unique id.
SELECT id, spec, state, created_at, changed_at, version, call FROM job WHERE id = ?;

-- name: jobs
-- Read these jobs. Index: the unique id.
SELECT job.id, spec, state, created_at, changed_at, version, call
FROM json_each(?) AS wanted CROSS JOIN job ON job.id = wanted.value;

-- name: listed
-- Read the jobs that match, by name. Index: job_listed; it reads jobs that do not fit, too.
SELECT id, spec, state, created_at, changed_at, version, call FROM job INDEXED BY job_listed
WHERE (name, id) > (:name, :id) AND (:task IS NULL OR task = :task) AND (:source IS NULL OR source = :source)
    AND (:on IS NULL OR is_on = :on)
ORDER BY name, id LIMIT :limit;

-- name: owned
-- Read the jobs of an owner that match, by name. Index: job_owned; it reads others of that owner, too.
SELECT id, spec, state, created_at, changed_at, version, call FROM job INDEXED BY job_owned
WHERE owner = :owner AND owner IS NOT NULL AND name >= :name AND (name, id) > (:name, :id)
    AND (:task IS NULL OR task = :task) AND (:source IS NULL OR source = :source) AND (:on IS NULL OR is_on = :on)
ORDER BY name LIMIT :limit;

-- name: named
-- Read the jobs of a name or an id that match. Index: job_listed, and the unique id.
SELECT id, spec, state, created_at, changed_at, version, call FROM job
WHERE id IN (SELECT id FROM job INDEXED BY job_listed WHERE name = :named UNION SELECT :named)
    AND (name, id) > (:name, :id) AND (:owner IS NULL OR owner = :owner)
    AND (:task IS NULL OR task = :task) AND (:source IS NULL OR source = :source) AND (:on IS NULL OR is_on = :on)
ORDER BY name, id LIMIT :limit;

-- name: owners_own
-- Find the job that has this owner and name. Index: job_owned.
SELECT id FROM job INDEXED BY job_owned WHERE owner = ? AND owner IS NOT NULL AND name = ?;

-- name: nobodys_own
-- Find the job that has this name and no owner. Index: job_unowned.
SELECT id FROM job INDEXED BY job_unowned WHERE owner IS NULL AND name = ?;

-- name: put
-- Write a job that was added or changed by a call. Index: the unique id.
INSERT INTO job (id, owner, name, task, source, is_on, fire_at, version, call, created_at, changed_at, spec, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    owner = excluded.owner, name = excluded.name, task = excluded.task, source = excluded.source,
    is_on = excluded.is_on, fire_at = excluded.fire_at, version = excluded.version, call = excluded.call,
    created_at = excluded.created_at, changed_at = excluded.changed_at, spec = excluded.spec, state = excluded.state;

-- name: move
-- Write the state of a job after a fire, or after the end of its run. Index: the unique id.
UPDATE job SET is_on = ?, fire_at = ?, version = ?, state = ? WHERE id = ?;

-- name: remove
-- Delete a job. Index: the unique id.
DELETE FROM job WHERE id = ?;

-- name: note_time
-- Remember the latest time at which a job was written. Index: the primary key.
UPDATE counter SET jobs_at = max(jobs_at, ?) WHERE one = 1;

-- name: set_time
-- Set the latest time at which a job was written. Index: the primary key.
UPDATE counter SET jobs_at = ? WHERE one = 1;

-- name: soonest
-- Return the fire time of the job that is due first. Index: the head of job_due.
SELECT min(fire_at) FROM job INDEXED BY job_due WHERE fire_at IS NOT NULL;

-- name: due
-- Read the jobs that are due, the longest due first. Index: job_due, of which it reads nothing else.
SELECT id, spec, state, created_at, changed_at, version, call FROM job INDEXED BY job_due
WHERE fire_at IS NOT NULL AND fire_at <= ?1 AND (fire_at, id) > (?2, ?3) ORDER BY fire_at, id LIMIT ?4;

-- name: times
-- Return the next fire time that is not due yet, and the latest time at which a job was written. Index: job_due, and
-- the primary key.
SELECT (SELECT min(fire_at) FROM job INDEXED BY job_due WHERE fire_at IS NOT NULL AND fire_at > ?), jobs_at
FROM counter WHERE one = 1;

-- name: fires
-- Read a job's records, newest first. Index: the primary key.
SELECT record FROM fire WHERE job = ? AND nth < ? ORDER BY nth DESC LIMIT ?;

-- name: newest_fires
-- Read the newest record of each of these jobs. Index: the primary key.
SELECT job, record FROM json_each(?) AS wanted
CROSS JOIN fire ON job = wanted.value AND nth = (SELECT max(nth) FROM fire WHERE job = wanted.value);

-- name: fired
-- Find which of these runs, each given with its job, that job has a record of. Index: fire_run.
SELECT job, run_id FROM json_each(?) AS wanted
CROSS JOIN fire INDEXED BY fire_run
ON job = wanted.value ->> 0 AND run_id = wanted.value ->> 1 AND run_id IS NOT NULL;

-- name: put_fire
-- Write a record, or overwrite the record of a fire that has gone on. Index: the primary key.
INSERT INTO fire (job, nth, run_id, record) VALUES (?, ?, ?, ?)
ON CONFLICT (job, nth) DO UPDATE SET run_id = excluded.run_id, record = excluded.record;

-- name: drop_fires
-- Delete the records of a job up to a number. Index: the primary key.
DELETE FROM fire WHERE job = ? AND nth <= ?;

-- name: run_ids
-- Read the ids of these runs. Index: the primary key.
SELECT run.number, run.id FROM json_each(?) AS wanted CROSS JOIN run ON run.number = wanted.value;
