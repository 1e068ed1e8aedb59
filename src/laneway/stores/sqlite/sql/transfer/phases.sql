-- The phase of the store in a move, and what the store has.

-- name: standing
-- Read the phase of the store in a move. Index: the primary key.
SELECT phase, move, place, mark FROM moving WHERE one = 1;

-- name: stand
-- Write the phase of the store in a move. Index: the primary key.
INSERT INTO moving (one, phase, move, place, mark) VALUES (1, ?, ?, ?, NULL)
ON CONFLICT (one) DO UPDATE SET phase = excluded.phase, move = excluded.move, place = excluded.place, mark = excluded.mark;

-- name: mark
-- Write how far the pieces of a move have arrived. Index: the primary key.
UPDATE moving SET mark = ? WHERE one = 1;

-- name: forget
-- Delete the phase. Index: the primary key.
DELETE FROM moving WHERE one = 1;

-- name: busy
-- Count the leases. It reads the table.
SELECT count(*) FROM lease;

-- name: holds
-- Count what the store has: runs, jobs, keys, operator settings, circuits, live incarnations. It reads these tables.
SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM job), (SELECT count(*) FROM key),
    (SELECT count(*) FROM cap) + (SELECT count(*) FROM paused) + (SELECT count(*) FROM disabled)
    + (SELECT count(*) FROM session_rule) + (SELECT count(*) FROM lane WHERE ruled IS NOT NULL OR paused <> 0),
    (SELECT count(*) FROM circuit), (SELECT count(*) FROM worker WHERE "left" = 0);

-- name: note_asides
-- Count the runs that are set aside. It reads the parked runs.
INSERT INTO aside (lane, task, runs)
SELECT lane, substr(gate, 6), count(*) FROM parked WHERE gate LIKE 'task:%' GROUP BY lane, gate;

-- name: note_broken
-- Count the runs that are parked behind circuits. It reads the parked runs.
INSERT INTO broken (lane, key, runs)
SELECT lane, substr(gate, 9), count(*) FROM parked WHERE gate LIKE 'breaker:%' GROUP BY lane, gate;
