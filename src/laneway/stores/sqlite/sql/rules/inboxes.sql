-- Messages: submissions that another run took.

-- name: put
-- Write a message that a run took. Index: the unique (number, kind, nth), and message_id.
INSERT INTO message (number, kind, nth, id, task, lane, user, priority, key, moved, args)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: last
-- Return how many messages of a kind a run took. Index: the unique (number, kind, nth).
SELECT coalesce(max(nth), 0) FROM message WHERE number = ? AND kind = ?;

-- name: counts
-- Count the messages of these runs; runs without messages are left out. Index: the unique (number, kind, nth).
SELECT number, count(*) FROM message WHERE number IN (SELECT value FROM json_each(?)) GROUP BY number;

-- name: messages
-- Read a page of the messages that a run took, by kind. Index: the unique (number, kind, nth).
SELECT id, kind, nth, task, args, lane, user, priority, key FROM message WHERE number = ?
ORDER BY kind, nth LIMIT ? OFFSET ?;

-- name: merged
-- Read what was merged into a run. Index: the unique id, then the unique (number, kind, nth).
SELECT message.id, kind, nth, message.task, message.args, message.lane, message.user, message.priority, message.key
FROM run CROSS JOIN message ON message.number = run.number AND kind = 'merged' WHERE run.id = ? ORDER BY nth;

-- name: unread
-- Read the unread messages of a run's inbox. Index: the unique (number, kind, nth).
SELECT id, kind, nth, task, args, lane, user, priority, key FROM message
WHERE number = ? AND kind = 'steered' AND NOT read ORDER BY nth;

-- name: set_read
-- Write how many messages of its inbox a run has read. Index: the unique (number, kind, nth).
UPDATE message SET read = nth <= ? WHERE number = ? AND kind = 'steered';

-- name: close
-- Mark the messages of a run that has ended. Index: message_open.
UPDATE message SET open = 0 WHERE number = ? AND open;

-- name: takers
-- Find which of these ids are messages, and the runs that took them first. Index: message_id, then the primary key.
SELECT message.id, kind, message.lane, run.id FROM json_each(?) AS wanted
CROSS JOIN message INDEXED BY message_id ON message.id = wanted.value AND NOT moved
CROSS JOIN run ON run.number = message.number;

-- name: keep_log
-- Write the number of events of a run that is not running, and its due time if that changed. Index: the unique number.
INSERT INTO outcome (number, state, attempt, crashes, fence, events, due_at) VALUES (?, 'pending', 1, 0, 0, ?, ?)
ON CONFLICT (number) DO UPDATE SET events = excluded.events, due_at = coalesce(excluded.due_at, due_at);
