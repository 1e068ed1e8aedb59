-- The counts that decide who may start: read when first asked for, written back at the end of the transaction.

-- name: lane
-- Read a lane's limits, how many of its runs are active and pending, and how far each of its priorities has come: a row
-- per priority, or one without. Index: the primary keys.
SELECT "limit", per_user, worker_limit, max_pending, when_full, active, pending, paused, priority, v, ready
FROM lane LEFT JOIN pace ON pace.lane = name WHERE name = $1;

-- name: set_runs
-- Write how many runs of a lane are active and pending. Index: the primary key.
UPDATE lane SET active = $1, pending = $2 WHERE name = $3;

-- name: set_pace
-- Write how far a priority of a lane has come. Index: the primary key.
INSERT INTO pace (lane, priority, v, ready) VALUES ($1::text, $2::int, $3::bigint, $4::int)
ON CONFLICT (lane, priority) DO UPDATE SET v = excluded.v, ready = excluded.ready;

-- name: ready_lanes
-- Name the lanes that have startable runs. It reads pace, a row per
-- lane and priority: an index by what is ready would keep every update of it from staying on its page.
SELECT DISTINCT lane FROM pace WHERE ready > 0;

-- name: turns
-- Read the turns of these users of a lane, at every priority. Index: the primary key.
SELECT turn."user", priority, last, waiting
FROM json_array_elements_text($2::json) AS wanted(value)
JOIN turn ON turn.lane = $1 AND turn."user" = wanted.value;

-- name: set_turn
-- Write a user's turn. Index: the primary key.
INSERT INTO turn (lane, "user", priority, last, waiting) VALUES ($1::text, $2::text, $3::int, $4::bigint, $5::int)
ON CONFLICT (lane, "user", priority) DO UPDATE SET last = excluded.last, waiting = excluded.waiting;

-- name: drop_turn
-- Delete the turn of a user who has nothing waiting. Index: the primary key.
DELETE FROM turn WHERE lane = $1::text AND "user" = $2::text AND priority = $3::int;

-- name: seats
-- Read the seats of these users of a lane. Index: the primary key.
SELECT seat."user", active, parked, out
FROM json_array_elements_text($2::json) AS wanted(value)
JOIN seat ON seat.lane = $1 AND seat."user" = wanted.value;

-- name: caps
-- Read the caps of these users in a lane, of those who have one of their own; who is paused has none to spare. Index:
-- the primary keys.
SELECT wanted.value, CASE WHEN paused.name IS NULL THEN cap ELSE 0 END
FROM json_array_elements_text($2::json) AS wanted(value)
LEFT JOIN paused ON paused.what = 'user' AND paused.name = wanted.value
LEFT JOIN cap ON cap."user" = wanted.value AND cap.lane = $1
WHERE paused.name IS NOT NULL OR cap IS NOT NULL;

-- name: parked_users
-- Name the users of a lane who have parked runs. Index: the primary key; it reads all seats of the lane.
SELECT "user" FROM seat WHERE lane = $1 AND parked > 0;

-- name: set_seat
-- Write a user's seat. Index: the primary key.
INSERT INTO seat (lane, "user", active, parked, out) VALUES ($1::text, $2::text, $3::int, $4::int, $5::int)
ON CONFLICT (lane, "user") DO UPDATE SET active = excluded.active, parked = excluded.parked, out = excluded.out;

-- name: drop_seat
-- Delete the seat of a user who has nothing in the lane. Index: the primary key.
DELETE FROM seat WHERE lane = $1::text AND "user" = $2::text;

-- name: sessions
-- Read these sessions. Index: the primary key.
SELECT name, admitted, unstarted, held, back, joined, front, rest
FROM json_array_elements_text($1::json) AS wanted(value)
JOIN session ON session.name = wanted.value;

-- name: set_session
-- Write a session. Index: the primary key.
INSERT INTO session (name, admitted, unstarted, held, back, joined, front, rest)
VALUES ($1::text, $2::text, $3::bigint, $4::int, $5::bigint, $6::bigint, $7::bigint, $8::text)
ON CONFLICT (name) DO UPDATE SET admitted = excluded.admitted, unstarted = excluded.unstarted, held = excluded.held,
    back = excluded.back, joined = excluded.joined, front = excluded.front, rest = excluded.rest;

-- name: drop_session
-- Delete a session that is idle. Index: the primary key.
DELETE FROM session WHERE name = $1::text;
