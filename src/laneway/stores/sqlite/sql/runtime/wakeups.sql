-- Choosing which workers to wake up.

-- name: idle
-- Read the idle workers: first those that execute nothing and have not lapsed, then the oldest. No claim is made ahead
-- for any of them. Index: worker_idle.
SELECT number, id, socket, told, incarnation, call, NULL, 0
FROM worker WHERE idle ORDER BY room IS NULL OR abs(?1 - renewed_at) > lease, number;

-- name: startable
-- Count the runs that could start at once, per lane, with the limit per worker of the lane. Index: pace_ready, then the
-- primary key of lane.
SELECT name, min(waiting, "limit" - active), worker_limit
FROM (SELECT lane, sum(ready) AS waiting FROM pace INDEXED BY pace_ready WHERE ready > 0 GROUP BY lane)
JOIN lane ON lane.name = lane WHERE active < "limit" AND NOT paused;

-- name: asides
-- Return the tasks, not paused, that have runs set aside in lanes with room, with those lanes and their limits per
-- worker; then the same for runs parked behind circuits that let them start by now. It reads aside and broken, a row
-- per lane and task, or per lane and circuit.
SELECT aside.lane, worker_limit, task FROM aside JOIN lane ON lane.name = aside.lane
WHERE active < "limit" AND NOT paused AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task' AND name = task)
UNION ALL
SELECT broken.lane, worker_limit, substr(broken.key, 1, instr(broken.key || char(10), char(10)) - 1) AS of
FROM broken CROSS JOIN lane ON lane.name = broken.lane LEFT JOIN circuit ON circuit.key = broken.key
WHERE (until IS NULL OR (until <= ?1 AND probe IS NULL)) AND active < "limit" AND NOT paused
    AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task' AND name = of);

-- name: executed
-- Count the runs that each incarnation executes, per lane. It reads all leases: only a limit per worker makes it
-- matter.
SELECT holder, run.lane, count(*) FROM lease CROSS JOIN run ON run.number = lease.number
WHERE died IS NULL GROUP BY holder, run.lane;

-- name: holder
-- Read the address at which a wake-up reaches a worker. Index: the unique id.
SELECT id, socket FROM worker WHERE id = ?;

-- name: live
-- Read the addresses of the workers that have not left. It reads the table.
SELECT id, socket FROM worker WHERE NOT "left";

-- name: rouse
-- Mark a worker as not idle. Index: the primary key.
UPDATE worker SET idle = 0 WHERE number = ?;
