-- Accepting runs.

-- name: undo
-- Delete the runs from an acceptance number on. Index: the primary key.
DELETE FROM run WHERE number >= ?;

-- name: insert
-- Write a run. Index: the unique id finds out a run that was accepted before.
INSERT INTO run (number, id, task, lane, user, session, priority, arrival, accepted_at, due_at, rank, args, ties)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_alike
-- Write startable runs that differ only in their id and arguments: numbers and ranks follow one by one. {nth} counts the
-- rows, {id} and {args} are the numbers of their parameters. Index: the unique id.
INSERT INTO run (number, id, task, lane, user, priority, accepted_at, due_at, rank, args)
VALUES (?1 + {nth}, ?{id}, ?3, ?4, ?5, ?6, ?7, ?7, ?2 + {nth}, ?{args});

-- name: ready_alike
-- Put such runs into their lane's ready order. Index: the primary key.
INSERT INTO ready (lane, rank, number, kind) VALUES (?3, ?2 + {nth}, ?1 + {nth}, 0);

-- name: set_retry
-- Note which run one tries again; few do, so it is no column of the statements above. Index: the primary key.
UPDATE run SET retry_of = ? WHERE number = ?;
