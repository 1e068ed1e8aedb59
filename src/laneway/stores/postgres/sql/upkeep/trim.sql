-- Trimming deltas from logs.

-- name: note_ends
-- Write the ends of runs with deltas that have ended since the last call. It reads the index transient_open: those that
-- had not ended when this was last done. Index: the primary key of outcome.
UPDATE transient SET ended_at = (SELECT outcome.ended_at FROM outcome WHERE outcome.number = transient.number)
WHERE ended_at IS NULL
    AND EXISTS (SELECT 1 FROM outcome WHERE outcome.number = transient.number AND outcome.ended_at IS NOT NULL);

-- name: outdated
-- Find the runs with deltas that ended before an instant, oldest end first. Index: transient_ended.
SELECT number FROM transient WHERE ended_at < $1 ORDER BY ended_at, number LIMIT $2;

-- name: chunks
-- Read the chunks of a run, without the last one of an ended run. Index: the primary key.
SELECT seq, body FROM event WHERE number = $1 ORDER BY seq;

-- name: last_chunk
-- Read the last chunk of a run that has ended, and its first number. Index: the primary key.
SELECT events - json_array_length(log::json) + 1, log FROM outcome WHERE number = $1 AND log IS NOT NULL;

-- name: drop_chunk
-- Delete a chunk. Index: the primary key.
DELETE FROM event WHERE number = $1::bigint AND seq = $2::int;

-- name: put_chunk
-- Write a chunk. Index: the primary key.
INSERT INTO event (number, seq, body) VALUES ($1::bigint, $2::int, $3::text);

-- name: put_last_chunk
-- Write the last chunk of a run that has ended. Index: the primary key.
UPDATE outcome SET log = $1 WHERE number = $2;

-- name: forget
-- Delete the marks of deltas of these runs. Index: the primary key.
DELETE FROM transient WHERE number = ANY (translate($1, '[]', '{}')::bigint[]);
