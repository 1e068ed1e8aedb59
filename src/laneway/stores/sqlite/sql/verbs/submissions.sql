-- Accepting runs.

-- name: look
-- Read all that a uniform batch needs, a row per priority of its lane: the last acceptance number, when the next future
-- run is due, the earliest deadline of a question, whether a worker is idle; the lane's limit and how many of its runs
-- are active and pending, the turn of runs without a user; and the virtual time of each priority. No row if there is no
-- such lane, if it has a bound, if the task is disabled, or if the store has a part in a move. ?1 is the lane, ?2 the
-- task. Index: primary keys, wait_until, worker_idle.
SELECT max(accepted, coalesce((SELECT max(number) FROM run), 0)), (SELECT min(rank) FROM due),
    (SELECT min(until) FROM wait INDEXED BY wait_until WHERE until IS NOT NULL),
    EXISTS (SELECT 1 FROM worker INDEXED BY worker_idle WHERE idle),
    "limit", active, pending, last, waiting, pace.priority, v, ready
FROM counter CROSS JOIN lane ON lane.name = ?1
LEFT JOIN pace ON pace.lane = ?1
LEFT JOIN turn ON turn.lane = ?1 AND turn.user = '' AND turn.priority = 0
WHERE one = 1 AND max_pending IS NULL AND NOT EXISTS (SELECT 1 FROM disabled WHERE task = ?2)
    AND NOT EXISTS (SELECT 1 FROM moving WHERE one = 1);

-- name: undo
-- Delete the runs from an acceptance number on. Index: the primary key.
DELETE FROM run WHERE number >= ?;

-- name: insert
-- Write a run. Index: the unique id finds out a run that was accepted before.
INSERT INTO run (number, id, task, lane, user, session, priority, arrival, accepted_at, due_at, rank, args, ties)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_uniform
-- Write the runs of a uniform batch: numbers and ranks follow one by one. {nth} counts the
-- rows, {id} and {args} are the numbers of their parameters. Index: the unique id.
INSERT INTO run (number, id, task, lane, priority, accepted_at, due_at, rank, args)
VALUES (?1 + {nth}, ?{id}, ?3, ?4, 0, ?5, ?5, ?2 + {nth}, ?{args});

-- name: ready_uniform
-- Put the runs of a uniform batch, from an acceptance number on, into their lane's ready order. Index: the primary
-- keys.
INSERT INTO ready (lane, rank, number, kind) SELECT lane, rank, number, 0 FROM run WHERE number >= ?;

-- name: set_retry
-- Write which run this one tries again. Few runs do, so it is no column of the statements above. Index: the primary
-- key.
UPDATE run SET retry_of = ? WHERE number = ?;
