-- A worker's step: the claim, and the reply that can be built again.

-- name: lease
-- Lease a run to an incarnation. Index: the primary key.
INSERT INTO lease (number, fence, attempt, holder, call, nth, started_at, events)
VALUES ($1::bigint, $2::int, $3::int, $4::text, $5::bigint, $6::int, $7::bigint, $8::int);

-- name: worker
-- Read an incarnation and its last reply, and whether the store has a part in a move. Index: the primary keys.
SELECT incarnation, "left", call, EXISTS (SELECT 1 FROM moving WHERE one = 1), lent, refused, due_in, more, answered_at
FROM worker WHERE id = $1 ORDER BY era DESC LIMIT 1;

-- name: answer
-- Write the reply to a step. Index: the primary key.
UPDATE worker SET call = $1, refused = $2, due_in = $3, more = $4, answered_at = $5, told = $6, idle = $7, short = $8,
    room = $9, lent = $10, writes = writes + 1
WHERE id = $11 AND era = (SELECT era FROM worker WHERE id = $11 ORDER BY era DESC LIMIT 1);

-- name: claimed
-- Read again what an incarnation claimed in one step. Index: lease_held, then the primary keys.
SELECT lease.number, id, task, run.args, lease.fence, lease.attempt, coalesce(crashes, 0), lane, "user", session,
    priority, holder, 0, checkpoint.state, 0, lease.messages, prepared.args, ties, lease.memos
FROM lease JOIN run ON run.number = lease.number LEFT JOIN outcome ON outcome.number = lease.number
LEFT JOIN checkpoint ON checkpoint.number = lease.number LEFT JOIN prepared ON prepared.number = lease.number
WHERE holder = $1 AND call = $2 AND died IS NULL ORDER BY nth;

-- name: lease_kept
-- Write how many messages and memos a run had when it was claimed; few have any. Index: the primary key.
UPDATE lease SET messages = $1, memos = $2 WHERE number = $3;

-- name: executed
-- Count the runs of these lanes that an incarnation executes. Index: lease_held, then the primary key of run. Only
-- lanes with a limit per worker are asked for.
SELECT run.lane, count(*)
FROM lease CROSS JOIN LATERAL (SELECT lane FROM run WHERE run.number = lease.number OFFSET 0) AS run
WHERE holder = $1 AND died IS NULL AND run.lane = ANY (ARRAY(SELECT json_array_elements_text($2::json)))
GROUP BY run.lane;

-- name: requests
-- Read the requests on the runs that an incarnation executes, and how many messages are in their inboxes. Index:
-- lease_requested; then lease_held, and message_open for each of them.
SELECT number, fence, request, 0 FROM lease
WHERE holder = $1 AND request IS NOT NULL AND died IS NULL
UNION ALL
SELECT number, fence, 'steer', steered.messages FROM lease CROSS JOIN LATERAL (
    SELECT count(*) AS messages FROM message WHERE message.number = lease.number AND kind = 'steered' AND open <> 0
) AS steered
WHERE holder = $1 AND died IS NULL AND steered.messages > 0
ORDER BY 1, 3;
