-- A worker's step: claiming what fits, and the answer that can be given again.

-- name: lease
-- Lease a run to an incarnation. Index: the primary key.
INSERT INTO lease (number, fence, attempt, holder, call, nth, started_at, events) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: worker
-- Read an incarnation and its last answer. Index: the unique id.
SELECT incarnation, "left", call, refused, due_in, more, answered_at FROM worker WHERE id = ?;

-- name: answer
-- Keep the answer to a step. Index: the unique id.
UPDATE worker SET call = ?, refused = ?, due_in = ?, more = ?, answered_at = ?, told = ?, idle = ? WHERE id = ?;

-- name: claimed
-- Read again what an incarnation claimed in one step. It reads all leases: a step is rarely repeated.
SELECT lease.number, id, task, args, lease.fence, lease.attempt, coalesce(crashes, 0), lane, user, session, priority, holder,
    0, checkpoint.state, 0
FROM lease CROSS JOIN run ON run.number = lease.number LEFT JOIN outcome ON outcome.number = lease.number
LEFT JOIN checkpoint ON checkpoint.number = lease.number
WHERE holder = ? AND call = ? AND died IS NULL ORDER BY nth;

-- name: requests
-- Read what is requested of the runs that an incarnation executes. Index: lease_requested.
SELECT number, fence, request FROM lease INDEXED BY lease_requested
WHERE holder = ? AND request IS NOT NULL AND died IS NULL ORDER BY number;
