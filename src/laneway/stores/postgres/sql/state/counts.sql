-- The counts that decide who may start: a transaction reads them when a rule first needs them and writes them back at
-- its end.
--
-- Almost every transaction writes these rows. While an old snapshot keeps their former versions alive, a lookup begins
-- with the newest era of a row, so it passes at most `64` dead versions (see the schema).

-- name: lane
-- Read a lane's limits, the number of its active and pending runs, and the virtual time of each priority: a row per
-- priority, or one without. Index: the primary keys, one look per priority, from the highest down.
WITH RECURSIVE come(priority, v, ready) AS (
    (SELECT priority, v, ready FROM pace WHERE lane = $1 ORDER BY priority DESC, era DESC LIMIT 1)
    UNION ALL
    SELECT next.priority, next.v, next.ready FROM come CROSS JOIN LATERAL (
        SELECT priority, v, ready FROM pace WHERE lane = $1 AND priority < come.priority
        ORDER BY priority DESC, era DESC LIMIT 1
    ) AS next
)
SELECT "limit", per_user, worker_limit, max_pending, when_full, active, pending, paused, priority, come.v, come.ready
FROM (SELECT * FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1) AS lane LEFT JOIN come ON true;

-- name: set_runs
-- Write the number of active and pending runs of a lane. Index: the primary key.
UPDATE lane SET active = $1, pending = $2, writes = writes + 1
WHERE name = $3 AND era = (SELECT era FROM lane WHERE name = $3 ORDER BY era DESC LIMIT 1);

-- name: set_pace
-- Write the virtual time of a priority of a lane. Index: the primary key.
INSERT INTO pace (lane, priority, v, ready, writes)
SELECT lane, priority, v, ready, coalesce((
    SELECT writes FROM pace WHERE pace.lane = given.lane AND pace.priority = given.priority ORDER BY era DESC LIMIT 1
), 0)
FROM (VALUES ($1::text, $2::int, $3::bigint, $4::int)) AS given(lane, priority, v, ready)
ON CONFLICT (lane, priority, era) DO UPDATE SET v = excluded.v, ready = excluded.ready, writes = pace.writes + 1;

-- name: ready_lanes
-- Return the lanes that have startable runs. Index: the primary key, one lookup per lane and priority. With an index on
-- the number of ready runs, updates of pace could not stay on their page.
WITH RECURSIVE come(lane, priority, ready) AS (
    (SELECT lane, priority, ready FROM pace ORDER BY lane DESC, priority DESC, era DESC LIMIT 1)
    UNION ALL
    SELECT next.lane, next.priority, next.ready FROM come CROSS JOIN LATERAL (
        SELECT lane, priority, ready FROM pace WHERE (pace.lane, pace.priority) < (come.lane, come.priority)
        ORDER BY lane DESC, priority DESC, era DESC LIMIT 1
    ) AS next
)
SELECT DISTINCT lane FROM come WHERE ready > 0;

-- name: turns
-- Read the turns of these users of a lane, at every priority that it knows. Index: the primary keys.
WITH RECURSIVE come(priority) AS (
    (SELECT priority FROM pace WHERE lane = $1 ORDER BY priority DESC, era DESC LIMIT 1)
    UNION ALL
    SELECT next.priority FROM come CROSS JOIN LATERAL (
        SELECT priority FROM pace WHERE lane = $1 AND priority < come.priority
        ORDER BY priority DESC, era DESC LIMIT 1
    ) AS next
)
SELECT wanted.value, come.priority, turn.last, turn.waiting
FROM json_array_elements_text($2::json) AS wanted(value) CROSS JOIN come CROSS JOIN LATERAL (
    SELECT last, waiting FROM turn WHERE lane = $1 AND "user" = wanted.value AND turn.priority = come.priority
    ORDER BY era DESC LIMIT 1
) AS turn;

-- name: set_turn
-- Write a user's turn. Index: the primary key.
INSERT INTO turn (lane, "user", priority, last, waiting, writes)
SELECT lane, "user", priority, last, waiting, coalesce((
    SELECT writes FROM turn
    WHERE turn.lane = given.lane AND turn."user" = given."user" AND turn.priority = given.priority
    ORDER BY era DESC LIMIT 1
), 0)
FROM (VALUES ($1::text, $2::text, $3::int, $4::bigint, $5::int)) AS given(lane, "user", priority, last, waiting)
ON CONFLICT (lane, "user", priority, era)
DO UPDATE SET last = excluded.last, waiting = excluded.waiting, writes = turn.writes + 1;

-- name: drop_turn
-- Delete the turn of a user without waiting runs. Index: the primary key.
DELETE FROM turn WHERE lane = $1::text AND "user" = $2::text AND priority = $3::int AND era = (
    SELECT era FROM turn AS newest
    WHERE newest.lane = $1::text AND newest."user" = $2::text AND newest.priority = $3::int
    ORDER BY era DESC LIMIT 1
);

-- name: rest_turn
-- Write that no run without a user waits. The row stays: it comes and goes so often that a lookup of a deleted row
-- would pass all its dead versions. Index: the primary key.
UPDATE turn SET waiting = 0, writes = writes + 1
WHERE lane = $1 AND "user" = '' AND priority = $2 AND waiting <> 0 AND era = (
    SELECT era FROM turn WHERE lane = $1 AND "user" = '' AND priority = $2 ORDER BY era DESC LIMIT 1
);

-- name: seats
-- Read the seats of these users of a lane. Index: the primary key.
SELECT wanted.value, active, parked, out
FROM json_array_elements_text($2::json) AS wanted(value) CROSS JOIN LATERAL (
    SELECT active, parked, out FROM seat WHERE lane = $1 AND "user" = wanted.value ORDER BY era DESC LIMIT 1
) AS seat;

-- name: caps
-- Read the caps of these users in a lane, for users with a cap of their own. A paused user has cap 0. Index: the
-- primary keys.
SELECT wanted.value, CASE WHEN paused.name IS NULL THEN cap ELSE 0 END
FROM json_array_elements_text($2::json) AS wanted(value)
LEFT JOIN paused ON paused.what = 'user' AND paused.name = wanted.value
LEFT JOIN cap ON cap."user" = wanted.value AND cap.lane = $1
WHERE paused.name IS NOT NULL OR cap IS NOT NULL;

-- name: parked_users
-- Return the users of a lane that have parked runs. Index: the primary key; it reads all seats of the lane.
SELECT "user" FROM seat WHERE lane = $1 AND parked > 0;

-- name: set_seat
-- Write a user's seat. Index: the primary key.
INSERT INTO seat (lane, "user", active, parked, out, writes)
SELECT lane, "user", active, parked, out, coalesce((
    SELECT writes FROM seat WHERE seat.lane = given.lane AND seat."user" = given."user" ORDER BY era DESC LIMIT 1
), 0)
FROM (VALUES ($1::text, $2::text, $3::int, $4::int, $5::int)) AS given(lane, "user", active, parked, out)
ON CONFLICT (lane, "user", era)
DO UPDATE SET active = excluded.active, parked = excluded.parked, out = excluded.out, writes = seat.writes + 1;

-- name: drop_seat
-- Delete the seat of a user without runs in the lane. Index: the primary key.
DELETE FROM seat WHERE lane = $1::text AND "user" = $2::text AND era = (
    SELECT era FROM seat AS newest WHERE newest.lane = $1::text AND newest."user" = $2::text ORDER BY era DESC LIMIT 1
);

-- name: sessions
-- Read these sessions. Index: the primary key.
SELECT name, admitted, unstarted, held, back, joined, front, rest
FROM json_array_elements_text($1::json) AS wanted(value)
CROSS JOIN LATERAL (SELECT * FROM session WHERE session.name = wanted.value OFFSET 0) AS session;

-- name: set_session
-- Write a session. Index: the primary key.
INSERT INTO session (name, admitted, unstarted, held, back, joined, front, rest)
VALUES ($1::text, $2::text, $3::bigint, $4::int, $5::bigint, $6::bigint, $7::bigint, $8::text)
ON CONFLICT (name) DO UPDATE SET admitted = excluded.admitted, unstarted = excluded.unstarted,
    held = excluded.held, back = excluded.back, joined = excluded.joined, front = excluded.front, rest = excluded.rest;

-- name: drop_session
-- Delete a session that is idle. Index: the primary key.
DELETE FROM session WHERE name = $1::text;
