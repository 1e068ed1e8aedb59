-- Choosing whom to wake.

-- name: idle
-- Read the resting workers, oldest first. Index: worker_idle.
SELECT number, id, socket, told, incarnation FROM worker WHERE idle ORDER BY number;

-- name: startable
-- Count what could start at once, per lane, with its limit per worker. Index: pace_ready, then the primary key of lane.
SELECT name, min(waiting, "limit" - active), worker_limit
FROM (SELECT lane, sum(ready) AS waiting FROM pace INDEXED BY pace_ready WHERE ready > 0 GROUP BY lane)
JOIN lane ON lane.name = lane WHERE active < "limit" AND NOT paused;

-- name: asides
-- Name the tasks that are not paused and have runs set aside in lanes with room, with those lanes and their limits per
-- worker. It reads aside, a row per lane and task.
SELECT aside.lane, worker_limit, task FROM aside JOIN lane ON lane.name = aside.lane
WHERE active < "limit" AND NOT paused AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'task' AND name = task);

-- name: executed
-- Count what each incarnation executes, per lane. It reads all leases: only a limit per worker makes it matter.
SELECT holder, run.lane, count(*) FROM lease CROSS JOIN run ON run.number = lease.number
WHERE died IS NULL GROUP BY holder, run.lane;

-- name: holder
-- Read where a wake-up reaches a worker. Index: the unique id.
SELECT id, socket FROM worker WHERE id = ?;

-- name: rouse
-- End the rest of a worker. Index: the primary key.
UPDATE worker SET idle = 0 WHERE number = ?;
