-- Runs that were submitted together, bound into one row.

-- name: is_any
-- Tell whether there is any sheaf. Index: the primary key.
SELECT EXISTS (SELECT 1 FROM sheaf);

-- name: look
-- Read the first number and the greatest id that is bound, and whether a run has an id in this range. Index: the primary
-- key, the unique id.
SELECT (SELECT min(first) FROM sheaf), (SELECT highest FROM sheaf ORDER BY first DESC LIMIT 1),
    EXISTS (SELECT 1 FROM run WHERE id BETWEEN ?1 AND ?2);

-- name: bind
-- Write a sheaf. Index: the primary key.
INSERT INTO sheaf (first, runs, rank, task, lane, user, priority, accepted_at, highest, ids, args)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: reserve
-- Keep numbers from a process of an older laneway, which knows of no sheaves. Index: the primary key.
UPDATE counter SET accepted = ?1 WHERE one = 1;

-- name: unreserve
-- Give back what is left of them, unless somebody has counted on. Index: the primary key.
UPDATE counter SET accepted = ?1 WHERE one = 1 AND accepted = ?2;

-- name: bound
-- Read all sheaves, oldest first. It reads the table.
SELECT first, runs, rank, task, lane, user, priority, accepted_at, ids, args FROM sheaf ORDER BY first;

-- name: put_ready
-- Put the runs of these numbers into their lane's ready order. Index: the primary keys.
INSERT INTO ready (lane, rank, number, kind) SELECT lane, rank, number, 0 FROM run WHERE number BETWEEN ? AND ?;

-- name: clear
-- Delete all sheaves. It reads the table.
DELETE FROM sheaf;
