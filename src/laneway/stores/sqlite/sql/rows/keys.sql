-- Idempotency keys.

-- name: find
-- Read the entries of these keys, given as [task, user, key]. Index: the primary key.
SELECT key.task, key.user, key.key, run_id, number, digest, at FROM json_each(?) AS wanted
CROSS JOIN key ON key.task = wanted.value ->> 0 AND key.user = wanted.value ->> 1 AND key.key = wanted.value ->> 2;

-- name: put
-- Write a key and the run that it stands for. Index: the primary key.
INSERT INTO key (task, user, key, run_id, number, digest, at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: free
-- Delete the keys of a run. Index: key_number.
DELETE FROM key WHERE number = ?;

-- name: move
-- Let a key stand for another run. Index: the primary key.
UPDATE key SET run_id = ?, number = ? WHERE task = ? AND user = ? AND key = ? AND number = ?;

-- name: free_one
-- Delete one key of a run. Index: the primary key.
DELETE FROM key WHERE task = ? AND user = ? AND key = ? AND number = ?;
