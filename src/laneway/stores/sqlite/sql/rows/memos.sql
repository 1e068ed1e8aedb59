-- Memos: what runs keep for their later attempts.

-- name: put
-- Keep a memo, behind all others, in the place of the one of its kind and name. Index: the unique (number, kind, name).
INSERT OR REPLACE INTO memo (number, kind, name, body) VALUES (?, ?, ?, ?);

-- name: memos
-- Read a run's memos, by when they were written. Index: the unique (number, kind, name); it sorts those of one run.
SELECT body FROM memo WHERE number = ? ORDER BY id;

-- name: returned
-- Read what a run keeps of those that it called. Index: the unique (number, kind, name).
SELECT body FROM memo WHERE number = ? AND kind = 'call';
