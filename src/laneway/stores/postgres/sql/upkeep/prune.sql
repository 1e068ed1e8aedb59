-- Deleting ended runs that are old.

-- name: outdated
-- Find the runs of a state that ended before an instant, oldest end first. Index: outcome_age.
SELECT ended_at, number FROM outcome
WHERE state = $1 AND ended_at IS NOT NULL AND ended_at < $2 ORDER BY ended_at, number LIMIT $3;

-- name: keep_number
-- Remember the newest acceptance number before its run may be deleted, so that it is not given again. Index: the
-- primary keys.
UPDATE counter SET accepted = greatest(accepted, (SELECT max(number) FROM run)) WHERE one = 1;

-- name: drop_events
-- Delete the events of these runs. Index: the primary key.
DELETE FROM event WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_checkpoints
-- Delete the checkpoints of these runs. Index: the primary key.
DELETE FROM checkpoint WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_transient
-- Delete the marks of deltas of these runs. Index: the primary key.
DELETE FROM transient WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_controls
-- Delete the marks of the calls that changed these runs. Index: the primary key.
DELETE FROM control WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_prepared
-- Delete the prepared arguments of these runs. Index: the primary key.
DELETE FROM prepared WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_memos
-- Delete the memos of these runs. Index: the primary key.
DELETE FROM memo WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_waits
-- Delete what these runs waited for last. Index: the primary key.
DELETE FROM wait WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_messages
-- Delete the messages that these runs took. Index: the primary key.
DELETE FROM message WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: leave_keys
-- Mark the keys of these runs: their runs are deleted. Index: key_number.
UPDATE key SET gone = 1 WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_keys
-- Delete the keys of deleted runs that are of an instant or older. Index: key_gone.
DELETE FROM key WHERE gone <> 0 AND at <= $1::bigint;

-- name: drop_outcomes
-- Delete the outcomes of these runs. Index: the primary key.
DELETE FROM outcome WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: drop_runs
-- Delete these runs. Index: the primary key.
DELETE FROM run WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);
