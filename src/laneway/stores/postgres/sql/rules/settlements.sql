-- Results and events, written under the leases of their runs.

-- name: leased
-- Read these leases of an incarnation, and what the rules need of their runs, as `Leased` has it. What a run waited for
-- is read from its second start on. Index: the primary keys; the holder is compared so that lease_held is of no use, by
-- which all would be read that it holds, and ever held.
SELECT 1, 0, lease.number, '', task, NULL, lane, "user", session, priority, ties, 0, NULL, attempt, 0, fence, events,
    NULL, NULL, 0, 0, coalesce(died, holder), started_at, noted, request, cleared,
    CASE WHEN fence > 1 THEN (SELECT body FROM wait WHERE wait.number = lease.number) END
FROM lease JOIN run ON run.number = lease.number
WHERE lease.number = ANY (translate($1, '[]', '{}')::bigint[]) AND holder IS NOT DISTINCT FROM $2;

-- name: id
-- Read the id of a run. Index: the primary key.
SELECT id FROM run WHERE number = $1;

-- name: free
-- Delete these leases. Index: the primary key.
DELETE FROM lease WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: settle
-- Write how an attempt ended. Index: the primary key. A run that ends keeps the due time it had.
INSERT INTO outcome
(number, state, attempt, crashes, fence, events, due_at, started_at, ended_at, reason, error, result, log)
VALUES ($1::bigint, $2::text, $3::int, $4::int, $5::int, $6::int, $7::bigint, $8::bigint, $9::bigint, $10::text,
    $11::text, $12::text, $13::text)
ON CONFLICT (number) DO UPDATE SET
    state = excluded.state, attempt = excluded.attempt, crashes = excluded.crashes, fence = excluded.fence,
    events = excluded.events, due_at = coalesce(excluded.due_at, outcome.due_at), started_at = excluded.started_at,
    ended_at = excluded.ended_at, reason = excluded.reason, error = excluded.error, result = excluded.result,
    log = excluded.log;

-- name: succeed
-- Write that a run has succeeded, as `settle` would, with fewer values to send. Index: the primary key.
INSERT INTO outcome
(number, state, attempt, crashes, fence, events, due_at, started_at, ended_at, reason, error, result, log)
VALUES ($1::bigint, 'succeeded', $2::int, 0, $3::int, $4::int, NULL, $5::bigint, $6::bigint, NULL, NULL, $7::text,
    $8::text)
ON CONFLICT (number) DO UPDATE SET
    state = excluded.state, attempt = excluded.attempt, crashes = 0, fence = excluded.fence, events = excluded.events,
    started_at = excluded.started_at, ended_at = excluded.ended_at, reason = NULL, error = NULL,
    result = excluded.result, log = excluded.log;

-- name: append
-- Write a chunk of events. Index: the primary key.
INSERT INTO event (number, seq, body) VALUES ($1::bigint, $2::int, $3::text);

-- name: streams
-- Mark a run that has deltas in its log. Index: the primary key.
INSERT INTO transient (number) VALUES ($1::bigint) ON CONFLICT DO NOTHING;

-- name: note
-- Write the number of events under a lease, its `started` included. Index: the primary key.
UPDATE lease SET events = $1, noted = 1 WHERE number = $2;

-- name: save
-- Write the newest checkpoint of a run. Index: the primary key.
INSERT INTO checkpoint (number, state)
VALUES ($1::bigint, $2::text) ON CONFLICT (number) DO UPDATE SET state = excluded.state;

-- name: prepare
-- Write the prepared arguments of a run. Index: the primary key.
INSERT INTO prepared (number, args)
VALUES ($1::bigint, $2::text) ON CONFLICT (number) DO UPDATE SET args = excluded.args;

-- name: forgive
-- Reset the crashes of a run that has reached a checkpoint. Index: the primary key.
UPDATE outcome SET crashes = 0 WHERE number = $1 AND crashes > 0;

-- name: overdue
-- Mark a lease whose attempt has timed out. Index: the primary key.
UPDATE lease SET timed_out = 1 WHERE number = $1;
