-- Memos: what runs keep for their later attempts.

-- name: put
-- Keep a memo, behind all others, in the place of the one of its kind and name. Index: the primary key.
INSERT INTO memo (number, kind, name, body) VALUES ($1::bigint, $2::text, $3::text, $4::text)
ON CONFLICT (number, kind, name) DO UPDATE SET id = DEFAULT, body = excluded.body;

-- name: memos
-- Read a run's memos, by when they were written. Index: the primary key; it sorts those of one run.
SELECT body FROM memo WHERE number = $1 ORDER BY id;

-- name: returned
-- Read what a run keeps of those that it called. Index: the primary key.
SELECT body FROM memo WHERE number = $1 AND kind = 'call';
