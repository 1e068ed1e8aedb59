-- Memos: what runs keep for their later attempts.

-- name: put
-- Write a memo after all others of the run; it replaces the memo of the same kind and name. Index: the unique (number,
-- kind, name).
INSERT OR REPLACE INTO memo (number, kind, name, body) VALUES (?, ?, ?, ?);

-- name: memos
-- Read a run's memos, in the order in which they were written. Index: the unique (number, kind, name); it sorts those
-- of one run.
SELECT body FROM memo WHERE number = ? ORDER BY id;

-- name: returned
-- Read the outcomes that a run has of its calls. Index: the unique (number, kind, name).
SELECT body FROM memo WHERE number = ? AND kind = 'call';
