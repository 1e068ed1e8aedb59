-- The circuits of tasks' breakers, and what is parked behind them.

-- name: circuits
-- Read these circuits. Index: the primary key.
SELECT circuit.key, failures, until, probe, fence FROM json_each(?) AS wanted CROSS JOIN circuit ON circuit.key = wanted.value;

-- name: tasks
-- Return the tasks that have a circuit that is not closed. Index: circuit_open, one look per task, however many of its
-- users have such a circuit.
WITH RECURSIVE guarded(task) AS (
    SELECT min(task) FROM circuit INDEXED BY circuit_open WHERE until IS NOT NULL
    UNION ALL
    SELECT (SELECT min(task) FROM circuit INDEXED BY circuit_open WHERE until IS NOT NULL AND task > guarded.task)
    FROM guarded WHERE guarded.task IS NOT NULL
)
SELECT task FROM guarded WHERE task IS NOT NULL;

-- name: put
-- Write a circuit. Index: the primary key.
INSERT INTO circuit (key, task, failures, until, probe, fence) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET failures = excluded.failures, until = excluded.until, probe = excluded.probe,
    fence = excluded.fence;

-- name: drop
-- Delete a circuit. Index: the primary key.
DELETE FROM circuit WHERE key = ?;

-- name: open
-- Return, per lane, the circuits whose parked runs may start by now. It reads broken, a row per lane and circuit that
-- has some, and the primary key of circuit.
SELECT lane, broken.key FROM broken LEFT JOIN circuit ON circuit.key = broken.key
WHERE until IS NULL OR (until <= ? AND probe IS NULL);

-- name: count
-- Add to the number of runs parked behind a circuit in a lane. Index: the primary key.
INSERT INTO broken (lane, key, runs) VALUES (?, ?, ?) ON CONFLICT (lane, key) DO UPDATE SET runs = runs + excluded.runs;

-- name: uncount
-- Delete a count that is zero. Index: the primary key.
DELETE FROM broken WHERE lane = ? AND key = ? AND runs = 0;

-- name: all
-- Read all circuits, closed ones with parked runs included, and how many runs each has. It reads both tables.
SELECT key, coalesce(failures, 0), until, probe, fence, coalesce(runs, 0)
FROM (SELECT key FROM circuit UNION SELECT key FROM broken) LEFT JOIN circuit USING (key)
LEFT JOIN (SELECT key, sum(runs) AS runs FROM broken GROUP BY key) USING (key) ORDER BY key;

-- name: holding
-- Read these circuits, and the ids of their probes. Index: the primary keys.
SELECT circuit.key, failures, until, probe, fence, run.id
FROM json_each(?) AS wanted CROSS JOIN circuit ON circuit.key = wanted.value LEFT JOIN run ON run.number = probe
ORDER BY wanted.key;
