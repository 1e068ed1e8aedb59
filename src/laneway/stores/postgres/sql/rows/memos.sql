-- Memos: what runs keep for their later attempts.

-- name: put
-- Write a memo after all others of the run; it replaces the memo of the same kind and name. Index: the primary key.
INSERT INTO memo (number, kind, name, body) VALUES ($1::bigint, $2::text, $3::text, $4::text)
ON CONFLICT (number, kind, name) DO UPDATE SET id = DEFAULT, body = excluded.body;

-- name: memos
-- Read a run's memos, in the order in which they were written. Index: the primary key; it sorts those of one run.
SELECT body FROM memo WHERE number = $1 ORDER BY id;

-- name: returned
-- Read the outcomes that a run has of its calls. Index: the primary key.
SELECT body FROM memo WHERE number = $1 AND kind = 'call';
