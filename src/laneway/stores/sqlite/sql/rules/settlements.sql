-- Results and events, written under the leases of their runs.

-- name: leased
-- Read these leases of an incarnation, and what the rules need of their runs, as `Leased` has it. What a run waited for
-- is read from its second start on. Index: the primary keys.
SELECT 1, 0, lease.number, '', task, NULL, lane, user, session, priority, ties, 0, NULL, attempt, 0, fence, events,
    NULL, NULL, 0, 0, coalesce(died, holder), started_at, noted, request, cleared,
    iif(fence > 1, (SELECT body FROM wait WHERE wait.number = lease.number), NULL)
FROM json_each(?1) AS wanted
CROSS JOIN lease ON lease.number = wanted.value
CROSS JOIN run ON run.number = lease.number
WHERE lease.holder = ?2;

-- name: id
-- Read the id of a run. Index: the primary key.
SELECT id FROM run WHERE number = ?;

-- name: free
-- Delete these leases. Index: the primary key.
DELETE FROM lease WHERE number IN (SELECT value FROM json_each(?));

-- name: settle
-- Write how an attempt ended. Index: the unique number. A run that ends keeps the due time it had.
INSERT INTO outcome
(number, state, attempt, crashes, fence, events, due_at, started_at, ended_at, reason, error, result, log)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET
    state = excluded.state, attempt = excluded.attempt, crashes = excluded.crashes, fence = excluded.fence,
    events = excluded.events, due_at = coalesce(excluded.due_at, due_at), started_at = excluded.started_at,
    ended_at = excluded.ended_at, reason = excluded.reason, error = excluded.error, result = excluded.result,
    log = excluded.log;

-- name: succeed
-- Write that a run has succeeded, as `settle` would, with fewer values to bind, because binding takes time, for a NULL
-- most of all. Index: the unique number.
INSERT INTO outcome
(number, state, attempt, crashes, fence, events, due_at, started_at, ended_at, reason, error, result, log)
VALUES (?, 'succeeded', ?, 0, ?, ?, NULL, ?, ?, NULL, NULL, ?, ?)
ON CONFLICT (number) DO UPDATE SET
    state = excluded.state, attempt = excluded.attempt, crashes = 0, fence = excluded.fence, events = excluded.events,
    started_at = excluded.started_at, ended_at = excluded.ended_at, reason = NULL, error = NULL,
    result = excluded.result, log = excluded.log;

-- name: append
-- Write a chunk of events. Index: the unique (number, seq).
INSERT INTO event (number, seq, body) VALUES (?, ?, ?);

-- name: streams
-- Mark a run that has deltas in its log. Index: the primary key.
INSERT OR IGNORE INTO transient (number) VALUES (?);

-- name: note
-- Write the number of events under a lease, its `started` included. Index: the primary key.
UPDATE lease SET events = ?, noted = 1 WHERE number = ?;

-- name: save
-- Write the newest checkpoint of a run. Index: the primary key.
INSERT INTO checkpoint (number, state) VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET state = excluded.state;

-- name: prepare
-- Write the prepared arguments of a run. Index: the primary key.
INSERT INTO prepared (number, args) VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET args = excluded.args;

-- name: forgive
-- Reset the crashes of a run that has reached a checkpoint. Index: the unique number.
UPDATE outcome SET crashes = 0 WHERE number = ? AND crashes > 0;

-- name: overdue
-- Mark a lease whose attempt has timed out. Index: the primary key.
UPDATE lease SET timed_out = 1 WHERE number = ?;
