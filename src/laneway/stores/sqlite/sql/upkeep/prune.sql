-- Deleting ended runs that are old.

-- name: outdated
-- Find the runs of a state that ended before an instant, oldest end first. Index: outcome_age, which covers it.
SELECT ended_at, number FROM outcome INDEXED BY outcome_age
WHERE state = ? AND ended_at < ? ORDER BY ended_at, number LIMIT ?;

-- name: keep_number
-- Remember the newest acceptance number before its run may be deleted, so that it is not given again. Index: the
-- primary keys.
UPDATE counter SET accepted = max(accepted, (SELECT max(number) FROM run)) WHERE one = 1;

-- name: drop_events
-- Delete the events of these runs. Index: the unique (number, seq).
DELETE FROM event WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_checkpoints
-- Delete the checkpoints of these runs. Index: the primary key.
DELETE FROM checkpoint WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_transient
-- Delete the marks of deltas of these runs. Index: the primary key.
DELETE FROM transient WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_controls
-- Delete the marks of the calls that changed these runs. Index: the primary key.
DELETE FROM control WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_prepared
-- Delete the prepared arguments of these runs. Index: the primary key.
DELETE FROM prepared WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_memos
-- Delete the memos of these runs. Index: the unique (number, kind, name).
DELETE FROM memo WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_waits
-- Delete what these runs waited for last. Index: the primary key.
DELETE FROM wait WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_messages
-- Delete the messages that these runs took. Index: the unique (number, kind, nth).
DELETE FROM message WHERE number IN (SELECT value FROM json_each(?));

-- name: leave_keys
-- Mark the keys of these runs: their runs are deleted. Index: key_number.
UPDATE key SET gone = 1 WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_keys
-- Delete the keys of deleted runs that are of an instant or older. Index: key_gone.
DELETE FROM key WHERE gone AND at <= ?;

-- name: drop_outcomes
-- Delete the outcomes of these runs. Index: the unique number.
DELETE FROM outcome WHERE number IN (SELECT value FROM json_each(?));

-- name: drop_runs
-- Delete these runs. Index: the primary key.
DELETE FROM run WHERE number IN (SELECT value FROM json_each(?));
