-- Accepting runs.

-- name: accept
-- Give out the next acceptance numbers and return the last. Index: the primary key of a table of one row.
UPDATE counter SET accepted = accepted + ? WHERE one = 1 RETURNING accepted;

-- name: insert
-- Write a run. Index: the unique id finds out a run that was accepted before.
INSERT INTO run (number, id, task, lane, user, session, priority, max_concurrent, accepted_at, due_at, place, rank, args)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: known
-- Find which of these ids are there already, and the lanes they got. Index: the unique id.
SELECT run.id, lane FROM json_each(?) AS wanted CROSS JOIN run ON run.id = wanted.value;
