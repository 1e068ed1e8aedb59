-- Choosing whom to wake.

-- name: idle
-- Read the resting workers, oldest first. Index: worker_idle.
SELECT number, id, socket, told, incarnation FROM worker WHERE idle ORDER BY number;

-- name: startable
-- Count what could start at once in all lanes together. Index: pace_ready, then the primary key of lane.
SELECT total(max(0, min(waiting, "limit" - active)))
FROM (SELECT lane, sum(ready) AS waiting FROM pace INDEXED BY pace_ready WHERE ready > 0 GROUP BY lane)
JOIN lane ON lane.name = lane;

-- name: asides
-- Name the tasks that have runs set aside in lanes with room. It reads aside, a row per lane and task.
SELECT DISTINCT task FROM aside JOIN lane ON lane.name = aside.lane WHERE active < "limit";

-- name: holder
-- Read where a wake-up reaches a worker. Index: the unique id.
SELECT id, socket FROM worker WHERE id = ?;

-- name: rouse
-- End the rest of these workers. Index: the primary key.
UPDATE worker SET idle = 0 WHERE number IN (SELECT value FROM json_each(?));
