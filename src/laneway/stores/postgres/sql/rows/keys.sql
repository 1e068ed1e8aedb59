-- Idempotency keys.

-- name: find
-- Read the entries of these keys, given as [task, user, key]. Index: the primary key.
SELECT key.task, key."user", key.key, run_id, number, digest, at
FROM json_array_elements($1::json) AS wanted(value)
JOIN key ON key.task = wanted.value ->> 0 AND key."user" = wanted.value ->> 1 AND key.key = wanted.value ->> 2;

-- name: put
-- Write a key and the run that it stands for. Index: the primary key.
INSERT INTO key (task, "user", key, run_id, number, digest, at)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::bigint);

-- name: free
-- Delete the keys of a run. Index: key_number.
DELETE FROM key WHERE number = $1::bigint;

-- name: move
-- Let a key stand for another run. Index: the primary key.
UPDATE key SET run_id = $1, number = $2 WHERE task = $3 AND "user" = $4 AND key = $5 AND number = $6;

-- name: free_one
-- Delete one key of a run. Index: the primary key.
DELETE FROM key WHERE task = $1::text AND "user" = $2::text AND key = $3::text AND number = $4::bigint;
