-- A worker's step: the claim, and the reply that can be built again.

-- name: lease
-- Lease a run to an incarnation. Index: the primary key.
INSERT INTO lease (number, fence, attempt, holder, call, nth, started_at, events) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: worker
-- Read an incarnation and its last reply, and whether the store has a part in a move. Index: the unique id, and the
-- primary key.
SELECT incarnation, "left", call, EXISTS (SELECT 1 FROM moving WHERE one = 1), lent, refused, due_in, more, answered_at
FROM worker WHERE id = ?;

-- name: answer
-- Write the reply to a step. Index: the unique id.
UPDATE worker SET call = ?, refused = ?, due_in = ?, more = ?, answered_at = ?, told = ?, idle = ?, short = ?,
    room = ?, lent = ?
WHERE id = ?;

-- name: claimed
-- Read again what an incarnation claimed in one step. It reads all leases: a step is rarely repeated.
SELECT lease.number, id, task, run.args, lease.fence, lease.attempt, coalesce(crashes, 0), lane, user, session, priority, holder,
    0, checkpoint.state, 0, lease.messages, prepared.args, ties, lease.memos
FROM lease CROSS JOIN run ON run.number = lease.number LEFT JOIN outcome ON outcome.number = lease.number
LEFT JOIN checkpoint ON checkpoint.number = lease.number LEFT JOIN prepared ON prepared.number = lease.number
WHERE holder = ? AND call = ? AND died IS NULL ORDER BY nth;

-- name: lease_kept
-- Write how many messages and memos a run had when it was claimed; few have any. Index: the primary key.
UPDATE lease SET messages = ?, memos = ? WHERE number = ?;

-- name: executed
-- Count the runs of these lanes that an incarnation executes. It reads all leases: only lanes with a limit per worker
-- are asked for.
SELECT run.lane, count(*) FROM lease CROSS JOIN run ON run.number = lease.number
WHERE holder = ?1 AND died IS NULL AND run.lane IN (SELECT value FROM json_each(?2)) GROUP BY run.lane;

-- name: requests
-- Read the requests on the runs that an incarnation executes, and how many messages are in their inboxes. Index:
-- lease_requested; it reads all leases, then message_open.
SELECT number, fence, request, 0 FROM lease INDEXED BY lease_requested
WHERE holder = ?1 AND request IS NOT NULL AND died IS NULL
UNION ALL
SELECT lease.number, fence, 'steer', count(*) FROM lease CROSS JOIN message INDEXED BY message_open
ON message.number = lease.number AND kind = 'steered' AND open
WHERE holder = ?1 AND died IS NULL GROUP BY lease.number
ORDER BY 1, 3;
