-- Which workers are alive, and the takeover from dead ones. Renewals are rare (one per worker and 5 s), so these
-- statements may read all leases, which are no more than the running runs.

-- name: heartbeat
-- Read when any worker last renewed. Index: the primary key of a table of one row.
SELECT renewed_at, grace_until FROM heartbeat WHERE one = 1;

-- name: beat
-- Write when a worker renewed. Index: the primary key of a table of one row.
UPDATE heartbeat SET renewed_at = ?, grace_until = ? WHERE one = 1;

-- name: register
-- Add an incarnation; one that is known stays as it is. Index: the unique id.
INSERT OR IGNORE INTO worker (id, incarnation, lease, renewed_at, socket) VALUES (?, ?, ?, ?, ?);

-- name: alive
-- Read the lease length of an incarnation that has not left. Index: the unique id.
SELECT lease FROM worker WHERE id = ? AND NOT "left";

-- name: holder
-- Read what tells whether an incarnation is dead. Index: the unique id.
SELECT lease, renewed_at, "left" FROM worker WHERE id = ?;

-- name: renew
-- Write the renewal of an incarnation. Index: the unique id.
UPDATE worker SET renewed_at = ? WHERE id = ?;

-- name: holds
-- Return the leases of an incarnation, its own first. It reads all leases.
SELECT number, fence FROM lease WHERE holder = ? ORDER BY died IS NOT NULL, call, nth;

-- name: others
-- Read all other incarnations, oldest first. It reads the table.
SELECT id, lease, renewed_at, "left" FROM worker WHERE id <> ? ORDER BY number;

-- name: bury
-- Mark an incarnation as left. Index: the unique id.
UPDATE worker SET "left" = 1, idle = 0 WHERE id = ?;

-- name: inherit
-- Give leases of a dead incarnation to another. It reads all leases.
UPDATE lease SET died = coalesce(died, holder), holder = ?1
WHERE number IN (SELECT number FROM lease WHERE holder = ?2 ORDER BY died IS NOT NULL, call, nth LIMIT ?3);

-- name: forget
-- Delete an incarnation that has left and holds nothing. Index: the unique id; it reads all leases.
DELETE FROM worker WHERE id = ?1 AND "left" AND NOT EXISTS (SELECT 1 FROM lease WHERE holder = ?1);

-- name: lose
-- Delete a lease. Index: the primary key.
DELETE FROM lease WHERE number = ?;

-- name: lapsed_count
-- Count the lapsed leases that an incarnation holds. It reads all leases.
SELECT count(*) FROM lease WHERE holder = ? AND died IS NOT NULL;

-- name: lapsed
-- Read the lapsed leases that an incarnation holds. It reads all leases.
SELECT lease.number, id, task, run.args, lease.fence, lease.attempt, coalesce(crashes, 0), lane, user, session, priority, died,
    1, checkpoint.state, timed_out,
    (SELECT count(*) FROM message WHERE message.number = lease.number), prepared.args, ties,
    (SELECT count(*) FROM memo WHERE memo.number = lease.number)
FROM lease CROSS JOIN run ON run.number = lease.number LEFT JOIN outcome ON outcome.number = lease.number
LEFT JOIN checkpoint ON checkpoint.number = lease.number LEFT JOIN prepared ON prepared.number = lease.number
WHERE holder = ? AND died IS NOT NULL ORDER BY call, nth;

-- name: unburied
-- Return whether an incarnation that has left still holds leases. It reads the table.
SELECT EXISTS (SELECT 1 FROM worker WHERE "left");
