-- What operators set, and what code declares of lanes.

-- name: create_lane
-- Create a default lane in the first layout; the later ones add to it. Index: the primary key.
INSERT INTO lane (name, "limit", per_user) VALUES ($1::text, $2::bigint, $3::bigint);

-- name: lane_rules
-- Read what is declared of these lanes, and what an operator set. Index: the primary key.
SELECT name, declared, ruled
FROM json_array_elements_text($1::json) AS wanted(value)
JOIN lane ON lane.name = wanted.value;

-- name: lane_names
-- Return the names of all lanes. It reads the table.
SELECT name FROM lane;

-- name: set_lane
-- Create or change a lane: what holds, what is declared, and what an operator set. Index: the primary key.
INSERT INTO lane (name, "limit", per_user, worker_limit, max_pending, when_full, declared, ruled, writes)
SELECT $1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::text, $7::text, $8::text,
    coalesce((SELECT writes FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1), 0)
ON CONFLICT (name, era) DO UPDATE SET "limit" = excluded."limit", per_user = excluded.per_user,
    worker_limit = excluded.worker_limit, max_pending = excluded.max_pending, when_full = excluded.when_full,
    declared = excluded.declared, ruled = excluded.ruled;

-- name: pause_lane
-- Pause or resume a lane. Index: the primary key.
UPDATE lane SET paused = $1 WHERE name = $2;

-- name: pause
-- Pause a user, session or task. Index: the primary key.
INSERT INTO paused (what, name) VALUES ($1::text, $2::text) ON CONFLICT DO NOTHING;

-- name: resume
-- Resume a user, session or task. Index: the primary key.
DELETE FROM paused WHERE what = $1::text AND name = $2::text;

-- name: paused
-- Return the names that are paused, of one kind. Index: the primary key.
SELECT name FROM paused WHERE what = $1;

-- name: disable
-- Disable a task. Index: the primary key.
INSERT INTO disabled (task) VALUES ($1::text) ON CONFLICT DO NOTHING;

-- name: enable
-- Enable a task. Index: the primary key.
DELETE FROM disabled WHERE task = $1::text;

-- name: disabled
-- Return the tasks that are disabled. It reads the table.
SELECT task FROM disabled;

-- name: set_cap
-- Write the cap of a user in a lane. Index: the primary key.
INSERT INTO cap ("user", lane, cap)
VALUES ($1::text, $2::text, $3::bigint) ON CONFLICT ("user", lane) DO UPDATE SET cap = excluded.cap;

-- name: drop_cap
-- Delete the cap of a user in a lane. Index: the primary key.
DELETE FROM cap WHERE "user" = $1::text AND lane = $2::text;

-- name: lanes_parking
-- Return the lanes in which a user has parked runs. It reads all lanes, then the primary key of seat.
SELECT lane.name FROM lane JOIN seat ON seat.lane = lane.name AND seat."user" = $1 WHERE parked > 0 ORDER BY lane.name;

-- name: ruled_sessions
-- Read what operators set of these sessions, and whether they are paused. Index: the primary keys.
SELECT wanted.value, rule, paused.name IS NOT NULL
FROM json_array_elements_text($1::json) AS wanted(value)
LEFT JOIN session_rule ON session_rule.name = wanted.value
LEFT JOIN paused ON paused.what = 'session' AND paused.name = wanted.value
WHERE rule IS NOT NULL OR paused.name IS NOT NULL;

-- name: ruled_names
-- Return the names of sessions that have an operator setting, have this prefix and come after a name. Index: the
-- primary keys.
SELECT name FROM session_rule WHERE name > :after AND name >= :prefix AND name < :last
UNION SELECT name FROM paused WHERE what = 'session' AND name > :after AND name >= :prefix AND name < :last
ORDER BY name LIMIT :limit;

-- name: set_session_rule
-- Write what operators set of a session. Index: the primary key.
INSERT INTO session_rule (name, rule) VALUES ($1::text, $2::text) ON CONFLICT (name) DO UPDATE SET rule = excluded.rule;

-- name: drop_session_rule
-- Delete what operators set of a session. Index: the primary key.
DELETE FROM session_rule WHERE name = $1::text;
