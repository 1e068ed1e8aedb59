-- The counts that decide who may start: a transaction reads them when a rule first needs them and writes them back at
-- its end. Rows are written whole, by REPLACE: in a table that consists of its primary key, SQLite then writes the row
-- without reading the old one, which is half the work of ON CONFLICT DO UPDATE.

-- name: lane
-- Read a lane's limits, the number of its active and pending runs, and the virtual time of each priority: a row per
-- priority, or one without. Index: the primary keys.
SELECT "limit", per_user, worker_limit, max_pending, when_full, active, pending, paused, priority, v, ready
FROM lane LEFT JOIN pace ON pace.lane = name WHERE name = ?;

-- name: set_runs
-- Write the number of active and pending runs of a lane. Index: the primary key.
UPDATE lane SET active = ?, pending = ? WHERE name = ?;

-- name: set_pace
-- Write the virtual time of a priority of a lane. Index: the primary key.
INSERT INTO pace (lane, priority, v, ready) VALUES (?, ?, ?, ?)
ON CONFLICT (lane, priority) DO UPDATE SET v = excluded.v, ready = excluded.ready;

-- name: ready_lanes
-- Return the lanes that have startable runs. Index: pace_ready, which covers it.
SELECT DISTINCT lane FROM pace INDEXED BY pace_ready WHERE ready > 0;

-- name: turns
-- Read the turns of these users of a lane, at every priority. Index: the primary key.
SELECT turn.user, priority, last, waiting
FROM json_each(?2) AS wanted CROSS JOIN turn ON turn.lane = ?1 AND turn.user = wanted.value;

-- name: set_turn
-- Write a user's turn. Index: the primary key.
REPLACE INTO turn (lane, user, priority, last, waiting) VALUES (?, ?, ?, ?, ?);

-- name: drop_turn
-- Delete the turn of a user without waiting runs. Index: the primary key.
DELETE FROM turn WHERE lane = ? AND user = ? AND priority = ?;

-- name: rest_turn
-- Delete the turn of runs without a user, of which none waits. Index: the primary key.
DELETE FROM turn WHERE lane = ? AND user = '' AND priority = ?;

-- name: seats
-- Read the seats of these users of a lane. Index: the primary key.
SELECT seat.user, active, parked, out
FROM json_each(?2) AS wanted CROSS JOIN seat ON seat.lane = ?1 AND seat.user = wanted.value;

-- name: caps
-- Read the caps of these users in a lane, for users with a cap of their own. A paused user has cap 0. Index: the
-- primary keys.
SELECT wanted.value, iif(paused.name IS NULL, cap, 0)
FROM json_each(?2) AS wanted
LEFT JOIN paused ON paused.what = 'user' AND paused.name = wanted.value
LEFT JOIN cap ON cap.user = wanted.value AND cap.lane = ?1
WHERE paused.name IS NOT NULL OR cap IS NOT NULL;

-- name: parked_users
-- Return the users of a lane that have parked runs. Index: the primary key; it reads all seats of the lane.
SELECT user FROM seat WHERE lane = ? AND parked > 0;

-- name: set_seat
-- Write a user's seat. Index: the primary key.
REPLACE INTO seat (lane, user, active, parked, out) VALUES (?, ?, ?, ?, ?);

-- name: drop_seat
-- Delete the seat of a user without runs in the lane. Index: the primary key.
DELETE FROM seat WHERE lane = ? AND user = ?;

-- name: sessions
-- Read these sessions. Index: the primary key.
SELECT name, admitted, unstarted, held, back, joined, front, rest
FROM json_each(?) AS wanted CROSS JOIN session ON session.name = wanted.value;

-- name: set_session
-- Write a session. Index: the primary key.
REPLACE INTO session (name, admitted, unstarted, held, back, joined, front, rest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_session
-- Delete a session that is idle. Index: the primary key.
DELETE FROM session WHERE name = ?;
