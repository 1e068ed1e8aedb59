-- Accepting runs that are alike and go straight to a lane.

-- name: look
-- Read all that is asked about such runs, a row per priority of their lane: the last acceptance number, when the next
-- future run is due, and the next question answered too late, whether a worker rests; the lane's limit and what runs and
-- waits there, the turn of their user at their priority; and how far each priority has come. No row if there is no such
-- lane, if it has a bound, if the task is disabled, if the user has parked runs, or if the store has a part in a move.
-- ?1 is the lane, ?2 the user or '', ?3 the priority, ?4 the task.
-- Index: primary keys, wait_until, worker_idle.
SELECT max(accepted, coalesce((SELECT max(number) FROM run), 0)), (SELECT min(rank) FROM due),
    (SELECT min(until) FROM wait INDEXED BY wait_until WHERE until IS NOT NULL),
    EXISTS (SELECT 1 FROM worker INDEXED BY worker_idle WHERE idle),
    "limit", active, pending, last, waiting, pace.priority, v, ready
FROM counter CROSS JOIN lane ON lane.name = ?1
LEFT JOIN pace ON pace.lane = ?1
LEFT JOIN turn ON turn.lane = ?1 AND turn.user = ?2 AND turn.priority = ?3
WHERE one = 1 AND max_pending IS NULL AND NOT EXISTS (SELECT 1 FROM disabled WHERE task = ?4)
    AND NOT EXISTS (SELECT 1 FROM seat WHERE seat.lane = ?1 AND seat.user = ?2 AND parked > 0)
    AND NOT EXISTS (SELECT 1 FROM moving WHERE one = 1);

-- name: lender
-- Read the oldest worker that has lent its next step, when it has renewed and for how long, and when the first job is
-- due, if a run that comes to this lane can only be started: the lane takes it, nothing else waits anywhere, no task is
-- paused and no breaker remembers anything. ?1 is the lane. Index: primary keys, worker_idle, pace_ready, job_due.
SELECT worker.number, worker.id, socket, call, room, 0, incarnation, renewed_at, lease,
    (SELECT min(fire_at) FROM job INDEXED BY job_due WHERE fire_at IS NOT NULL)
FROM worker INDEXED BY worker_idle CROSS JOIN lane ON lane.name = ?1
WHERE idle AND room IS NOT NULL AND worker_limit IS NULL AND active < "limit" AND NOT lane.paused
    AND NOT EXISTS (SELECT 1 FROM pace INDEXED BY pace_ready WHERE ready > 0) AND NOT EXISTS (SELECT 1 FROM aside)
    AND NOT EXISTS (SELECT 1 FROM broken) AND (SELECT min(key) FROM circuit) IS NULL
    AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task')
ORDER BY worker.number LIMIT 1;

-- name: put_ready
-- Put the runs from an acceptance number on into their lane's ready order. Index: the primary keys.
INSERT INTO ready (lane, rank, number, kind) SELECT lane, rank, number, 0 FROM run WHERE number >= ?;
