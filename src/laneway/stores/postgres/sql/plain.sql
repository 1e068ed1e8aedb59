-- Accepting runs that are alike and go straight to a lane.

-- name: look
-- Read all that is asked about such runs, a row per priority of their lane: the last acceptance number, when the next
-- future run is due, and the next question answered too late, whether a worker rests; the lane's limit and what runs
-- and waits there, the turn of their user at their priority; and how far each priority has come. No row if there is no
-- such lane, if it has a bound, if the task is disabled, if the user has parked runs, or if the store has a part in a
-- move. $1 is the lane, $2 the user or '', $3 the priority, $4 the task. Index: primary keys, wait_until, worker_idle.
WITH RECURSIVE come(priority, v, ready) AS (
    (SELECT priority, v, ready FROM pace WHERE lane = $1 ORDER BY priority DESC, era DESC LIMIT 1)
    UNION ALL
    SELECT next.priority, next.v, next.ready FROM come CROSS JOIN LATERAL (
        SELECT priority, v, ready FROM pace WHERE lane = $1 AND priority < come.priority
        ORDER BY priority DESC, era DESC LIMIT 1
    ) AS next
)
SELECT greatest(accepted, (SELECT max(number) FROM run)), (SELECT min(rank) FROM due),
    (SELECT min(until) FROM wait WHERE until IS NOT NULL),
    EXISTS (SELECT 1 FROM worker WHERE idle <> 0),
    "limit", active, pending, last, waiting, come.priority, come.v, come.ready
FROM counter CROSS JOIN (SELECT * FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1) AS lane
LEFT JOIN come ON true
LEFT JOIN (
    SELECT last, waiting FROM turn WHERE lane = $1 AND "user" = $2 AND priority = $3 ORDER BY era DESC LIMIT 1
) AS turn ON true
WHERE one = 1 AND max_pending IS NULL AND NOT EXISTS (SELECT 1 FROM disabled WHERE task = $4)
    AND coalesce((SELECT parked FROM seat WHERE lane = $1 AND "user" = $2 ORDER BY era DESC LIMIT 1), 0) = 0
    AND NOT EXISTS (SELECT 1 FROM moving WHERE one = 1);

-- name: lender
-- Read the oldest worker that has lent its next step, when it has renewed and for how long, and when the first job is
-- due, if a run that comes to this lane can only be started: the lane takes it, nothing else waits anywhere, no task is
-- paused and no breaker remembers anything. $1 is the lane. Index: primary keys, worker_idle, job_due; it reads pace, a
-- row per lane and priority.
SELECT worker.number, worker.id, socket, call, room,
    NOT pg_try_advisory_xact_lock(hashtextextended(socket, 0)), incarnation, renewed_at, lease,
    (SELECT min(fire_at) FROM job WHERE fire_at IS NOT NULL)
FROM (
    SELECT * FROM worker WHERE idle <> 0 AND room IS NOT NULL ORDER BY number LIMIT 1
) AS worker CROSS JOIN (SELECT * FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1) AS lane
WHERE worker_limit IS NULL AND active < "limit" AND paused = 0
    AND NOT EXISTS (SELECT 1 FROM pace WHERE ready > 0) AND NOT EXISTS (SELECT 1 FROM aside)
    AND NOT EXISTS (SELECT 1 FROM broken) AND NOT EXISTS (SELECT 1 FROM circuit)
    AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task');

-- name: put_ready
-- Put the runs from an acceptance number on into their lane's ready order. Index: the primary keys.
WITH put AS (
    INSERT INTO ready (lane, rank, number, kind) SELECT lane, rank, number, 0 FROM run WHERE number >= $1
    RETURNING lane, rank
)
UPDATE lane SET floor = lowest.rank FROM (SELECT lane, min(rank) AS rank FROM put GROUP BY lane) AS lowest
WHERE name = lowest.lane AND floor > lowest.rank
    AND era = (SELECT era FROM lane AS newest WHERE newest.name = lowest.lane ORDER BY era DESC LIMIT 1);
