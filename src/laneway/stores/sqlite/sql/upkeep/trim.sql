-- Trimming deltas from logs.

-- name: note_ends
-- Write the ends of runs with deltas that have ended since the last call. It reads the index transient_open: those that
-- had not ended when this was last done. Index: the unique number of outcome.
UPDATE transient SET ended_at = (SELECT outcome.ended_at FROM outcome WHERE outcome.number = transient.number)
WHERE ended_at IS NULL
    AND EXISTS (SELECT 1 FROM outcome WHERE outcome.number = transient.number AND outcome.ended_at IS NOT NULL);

-- name: outdated
-- Find the runs with deltas that ended before an instant, oldest end first. Index: transient_ended.
SELECT number FROM transient INDEXED BY transient_ended WHERE ended_at < ? ORDER BY ended_at, number LIMIT ?;

-- name: chunks
-- Read the chunks of a run, without the last one of an ended run. Index: the unique (number, seq).
SELECT seq, body FROM event WHERE number = ? ORDER BY seq;

-- name: last_chunk
-- Read the last chunk of a run that has ended, and its first number. Index: the unique number.
SELECT events - json_array_length(log) + 1, log FROM outcome WHERE number = ? AND log IS NOT NULL;

-- name: drop_chunk
-- Delete a chunk. Index: the unique (number, seq).
DELETE FROM event WHERE number = ? AND seq = ?;

-- name: put_chunk
-- Write a chunk. Index: the unique (number, seq).
INSERT INTO event (number, seq, body) VALUES (?, ?, ?);

-- name: put_last_chunk
-- Write the last chunk of a run that has ended. Index: the unique number.
UPDATE outcome SET log = ? WHERE number = ?;

-- name: forget
-- Delete the marks of deltas of these runs. Index: the primary key.
DELETE FROM transient WHERE number IN (SELECT value FROM json_each(?));
