-- What runs wait for.

-- name: put
-- Write what a run waits for; `until` is set if it asks a question. Index: the primary key.
INSERT INTO wait (number, until, request, body) VALUES (?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET until = excluded.until, request = excluded.request, body = excluded.body;

-- name: leave
-- End the wait of a run; what it waited for is kept. Index: the primary key.
UPDATE wait SET until = NULL, request = NULL WHERE number = ?;

-- name: take_back
-- Remove the request that a run had when it began to wait. Index: the primary key.
UPDATE wait SET request = NULL WHERE number = ?;

-- name: wait
-- Read what a run waits for, or waited for last. Index: the primary key.
SELECT body FROM wait WHERE number = ?;

-- name: late
-- Find the runs whose questions were not answered by an instant, the most overdue first. Index: wait_until, which
-- covers it.
SELECT number FROM wait INDEXED BY wait_until WHERE until <= ? ORDER BY until, number LIMIT ?;
