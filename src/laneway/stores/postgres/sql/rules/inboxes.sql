-- Messages: submissions that another run took.

-- name: put
-- Write a message that a run took. Index: the primary key, and message_id.
INSERT INTO message (number, kind, nth, id, task, lane, "user", priority, key, moved, args)
VALUES ($1::bigint, $2::text, $3::int, $4::text, $5::text, $6::text, $7::text, $8::int, $9::text, $10::int, $11::text);

-- name: last
-- Return how many messages of a kind a run took. Index: the primary key.
SELECT coalesce(max(nth), 0) FROM message WHERE number = $1 AND kind = $2;

-- name: counts
-- Count the messages of these runs; runs without messages are left out. Index: the primary key.
SELECT number, count(*) FROM message WHERE number = ANY (translate($1, '[]', '{}')::bigint[]) GROUP BY number;

-- name: messages
-- Read a page of the messages that a run took, by kind. Index: the primary key.
SELECT id, kind, nth, task, args, lane, "user", priority, key FROM message WHERE number = $1
ORDER BY kind, nth LIMIT $2 OFFSET $3;

-- name: merged
-- Read what was merged into a run. Index: the unique id, then the primary key.
SELECT message.id, kind, nth, message.task, message.args, message.lane, message."user", message.priority, message.key
FROM run JOIN message ON message.number = run.number AND kind = 'merged' WHERE run.id = $1 ORDER BY nth;

-- name: unread
-- Read the unread messages of a run's inbox. Index: the primary key.
SELECT id, kind, nth, task, args, lane, "user", priority, key FROM message
WHERE number = $1 AND kind = 'steered' AND read = 0 ORDER BY nth;

-- name: set_read
-- Write how many messages of its inbox a run has read. Index: the primary key.
UPDATE message SET read = (nth <= $1)::int WHERE number = $2 AND kind = 'steered';

-- name: close
-- Mark the messages of a run that has ended. Index: message_open.
UPDATE message SET open = 0 WHERE number = $1 AND open <> 0;

-- name: takers
-- Find which of these ids are messages, and the runs that took them first. Index: message_id, then the primary key.
SELECT message.id, kind, message.lane, run.id
FROM message JOIN run ON run.number = message.number
WHERE message.id = ANY (ARRAY(SELECT json_array_elements_text($1::json))) AND moved = 0;

-- name: keep_log
-- Write the number of events of a run that is not running, and its due time if that changed. Index: the primary key.
INSERT INTO outcome (number, state, attempt, crashes, fence, events, due_at)
VALUES ($1::bigint, 'pending', 1, 0, 0, $2::int, $3::bigint)
ON CONFLICT (number) DO UPDATE SET events = excluded.events, due_at = coalesce(excluded.due_at, outcome.due_at);
