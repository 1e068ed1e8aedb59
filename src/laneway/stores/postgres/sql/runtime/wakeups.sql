-- Choosing which workers to wake up.

-- name: idle
-- Read the idle workers: first those whose next claim can be made ahead, with their room, as they execute nothing and
-- have not lapsed; then the oldest. Last, whether a worker's process listens: then it holds a lock that nobody else can
-- take.
-- Index: worker_idle.
SELECT number, id, socket, told, incarnation, call, CASE WHEN abs($1::bigint - renewed_at) <= lease THEN room END,
    room IS NOT NULL AND NOT pg_try_advisory_xact_lock(hashtextextended(socket, 0))
FROM worker WHERE idle <> 0 ORDER BY room IS NULL OR abs($1::bigint - renewed_at) > lease, number;

-- name: startable
-- Count the runs that could start at once, per lane, with the limit per worker of the lane. It reads pace, a row per
-- lane and priority, then the primary key of lane.
SELECT name, least(waiting, "limit" - active), worker_limit
FROM (SELECT lane, sum(ready) AS waiting FROM pace WHERE ready > 0 GROUP BY lane) AS startable
JOIN lane ON lane.name = startable.lane WHERE active < "limit" AND paused = 0;

-- name: asides
-- Return the tasks, not paused, that have runs set aside in lanes with room, with those lanes and their limits per
-- worker; then the same for runs parked behind circuits that let them start by now. It reads aside and broken, a row
-- per lane and task, or per lane and circuit.
SELECT aside.lane, worker_limit, task FROM aside JOIN lane ON lane.name = aside.lane
WHERE active < "limit" AND paused = 0 AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task' AND name = task)
UNION ALL
SELECT broken.lane, worker_limit, split_part(broken.key, chr(10), 1)
FROM broken JOIN lane ON lane.name = broken.lane LEFT JOIN circuit ON circuit.key = broken.key
WHERE (until IS NULL OR (until <= $1 AND probe IS NULL)) AND active < "limit" AND paused = 0
    AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task' AND name = split_part(broken.key, chr(10), 1));

-- name: executed
-- Count the runs that each incarnation executes, per lane. It reads all leases: only a limit per worker makes it
-- matter.
SELECT holder, run.lane, count(*) FROM lease JOIN run ON run.number = lease.number
WHERE died IS NULL GROUP BY holder, run.lane;

-- name: holder
-- Read the address at which a wake-up reaches a worker. Index: the primary key.
SELECT id, socket FROM worker WHERE id = $1;

-- name: live
-- Read the addresses of the workers that have not left. It reads the table.
SELECT id, socket FROM worker WHERE "left" = 0;

-- name: rouse
-- Mark a worker as not idle. Index: worker_number.
UPDATE worker SET idle = 0 WHERE number = $1;
