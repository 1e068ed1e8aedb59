-- Which workers are alive, and the takeover from dead ones. Renewals are rare (one per worker and 5 s), so these
-- statements may read all leases of an incarnation, which are no more than the runs it executes.

-- name: heartbeat
-- Read when any worker last renewed. Index: the primary key of a table of one row.
SELECT renewed_at, grace_until FROM heartbeat WHERE one = 1;

-- name: beat
-- Write when a worker renewed. Index: the primary key of a table of one row.
UPDATE heartbeat SET renewed_at = $1, grace_until = $2 WHERE one = 1;

-- name: register
-- Add an incarnation; one that is known stays as it is. Index: the primary key.
INSERT INTO worker (id, incarnation, lease, renewed_at, socket)
SELECT $1::text, $2::text, $3::bigint, $4::bigint, $5::text WHERE NOT EXISTS (SELECT 1 FROM worker WHERE id = $1);

-- name: alive
-- Read the lease length of an incarnation that has not left. Index: the primary key.
SELECT lease FROM worker WHERE id = $1 AND "left" = 0;

-- name: holder
-- Read what tells whether an incarnation is dead. Index: the primary key.
SELECT lease, renewed_at, "left" FROM worker WHERE id = $1;

-- name: renew
-- Write the renewal of an incarnation. Index: the primary key.
UPDATE worker SET renewed_at = $1 WHERE id = $2;

-- name: holds
-- Return the leases of an incarnation, its own first. Index: lease_held; it sorts them.
SELECT number, fence FROM lease WHERE holder = $1 ORDER BY died IS NOT NULL, call, nth;

-- name: others
-- Read all other incarnations, oldest first. It reads the table.
SELECT id, lease, renewed_at, "left" FROM worker WHERE id <> $1 ORDER BY number;

-- name: bury
-- Mark an incarnation as left. Index: the primary key.
UPDATE worker SET "left" = 1, idle = 0 WHERE id = $1;

-- name: inherit
-- Give leases of a dead incarnation to another. Index: lease_held, then the primary key.
UPDATE lease SET died = coalesce(died, holder), holder = $1
WHERE number IN (SELECT number FROM lease WHERE holder = $2 ORDER BY died IS NOT NULL, call, nth LIMIT $3);

-- name: forget
-- Delete an incarnation that has left and holds nothing. Index: the primary key, and lease_held.
DELETE FROM worker WHERE id = $1 AND "left" <> 0 AND NOT EXISTS (SELECT 1 FROM lease WHERE holder = $1);

-- name: lose
-- Delete a lease. Index: the primary key.
DELETE FROM lease WHERE number = $1::bigint;

-- name: lapsed_count
-- Count the lapsed leases that an incarnation holds. Index: lease_held.
SELECT count(*) FROM lease WHERE holder = $1 AND died IS NOT NULL;

-- name: lapsed
-- Read the lapsed leases that an incarnation holds. Index: lease_held, then the primary keys.
SELECT lease.number, id, task, run.args, lease.fence, lease.attempt, coalesce(crashes, 0), lane, "user", session,
    priority, died, 1, checkpoint.state, timed_out,
    (SELECT count(*) FROM message WHERE message.number = lease.number), prepared.args, ties,
    (SELECT count(*) FROM memo WHERE memo.number = lease.number)
FROM lease JOIN run ON run.number = lease.number LEFT JOIN outcome ON outcome.number = lease.number
LEFT JOIN checkpoint ON checkpoint.number = lease.number LEFT JOIN prepared ON prepared.number = lease.number
WHERE holder = $1 AND died IS NOT NULL ORDER BY call, nth;

-- name: unburied
-- Return whether an incarnation that has left still holds leases. It reads the table.
SELECT EXISTS (SELECT 1 FROM worker WHERE "left" <> 0);
