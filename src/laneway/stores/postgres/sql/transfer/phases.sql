-- How the store stands in a move, and what it has.

-- name: standing
-- Read how the store stands in a move. Index: the primary key.
SELECT phase, move, place, mark FROM moving WHERE one = 1;

-- name: stand
-- Note how the store stands in a move. Index: the primary key.
INSERT INTO moving (one, phase, move, place, mark) VALUES (1, $1::text, $2::text, $3::text, NULL)
ON CONFLICT (one)
DO UPDATE SET phase = excluded.phase, move = excluded.move, place = excluded.place, mark = excluded.mark;

-- name: mark
-- Note how far the pieces of a move have come. Index: the primary key.
UPDATE moving SET mark = $1 WHERE one = 1;

-- name: forget
-- Forget the move. Index: the primary key.
DELETE FROM moving WHERE one = 1;

-- name: busy
-- Count the leases, what was submitted inside others' transactions and is not accepted yet, and those of these
-- transactions that have not ended: an insert that was let in holds its lock on the table. It reads both tables.
SELECT (SELECT count(*) FROM lease) + (SELECT count(*) FROM inbox)
    + (SELECT count(*) FROM pg_catalog.pg_locks
    WHERE locktype = 'relation' AND relation = 'inbox'::regclass AND mode = 'RowExclusiveLock');

-- name: holds
-- Count what there is: runs, jobs, keys, what operators set, circuits, live incarnations. It reads these tables.
SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM job), (SELECT count(*) FROM key),
    (SELECT count(*) FROM cap) + (SELECT count(*) FROM paused) + (SELECT count(*) FROM disabled)
    + (SELECT count(*) FROM session_rule) + (SELECT count(*) FROM lane WHERE ruled IS NOT NULL OR paused <> 0),
    (SELECT count(*) FROM circuit), (SELECT count(*) FROM worker WHERE "left" = 0);

-- name: note_asides
-- Count the runs that are set aside. It reads what is parked.
INSERT INTO aside (lane, task, runs)
SELECT lane, substr(gate, 6), count(*) FROM parked WHERE gate LIKE 'task:%' GROUP BY lane, gate;

-- name: note_broken
-- Count the runs that are parked behind circuits. It reads what is parked.
INSERT INTO broken (lane, key, runs)
SELECT lane, substr(gate, 9), count(*) FROM parked WHERE gate LIKE 'breaker:%' GROUP BY lane, gate;
