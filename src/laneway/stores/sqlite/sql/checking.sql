-- Does everything agree? Asked by people, rarely: most of these read the shelves whole, some of them the history too.
--
-- A `find_` brings, of everything that is wrong in one way, its name for people and then the parameters of the
-- statements that set it right.

-- name: find_unknown
-- Find leases and entries of shelves that belong to no run. It reads the shelves.
SELECT 'run number ' || number, number FROM (
    SELECT number FROM lease UNION SELECT number FROM ready UNION SELECT number FROM parked
    UNION SELECT number FROM held UNION SELECT number FROM due
) WHERE number NOT IN (SELECT number FROM run);

-- name: find_undead
-- Find leases and entries of shelves whose runs have ended. It reads the shelves.
SELECT 'run ' || id, place.number FROM (
    SELECT number FROM lease UNION SELECT number FROM ready UNION SELECT number FROM parked
    UNION SELECT number FROM held UNION SELECT number FROM due
) AS place JOIN outcome USING (number) JOIN run USING (number) WHERE ended_at IS NOT NULL;

-- name: find_doubled
-- Find runs that are in several places. It reads the shelves.
SELECT 'run ' || coalesce(id, number), number FROM (
    SELECT number FROM lease UNION ALL SELECT number FROM ready UNION ALL SELECT number FROM parked
    UNION ALL SELECT number FROM held UNION ALL SELECT number FROM due
) LEFT JOIN run USING (number) GROUP BY number HAVING count(*) > 1;

-- name: find_stranded
-- Find pending runs that no claim will ever meet, as entries for `due`: there each is met, at once. `kind` 1: it was
-- claimed before. It reads all runs.
SELECT 'run ' || id, coalesce(outcome.due_at, run.due_at), run.number, coalesce(fence, 0) > 0
FROM run LEFT JOIN outcome USING (number)
WHERE coalesce(state, 'pending') = 'pending' AND run.number NOT IN (
    SELECT number FROM lease UNION ALL SELECT number FROM ready UNION ALL SELECT number FROM parked
    UNION ALL SELECT number FROM held UNION ALL SELECT number FROM due
);

-- name: find_unheld
-- Find holders of leases that are no known incarnation, so that nobody would take over from them. It reads all leases.
SELECT DISTINCT 'worker ' || holder, holder FROM lease WHERE holder NOT IN (SELECT id FROM worker);

-- name: find_orphans
-- Find results, events and checkpoints of runs that are not there. It reads the history.
SELECT DISTINCT 'run number ' || number, number FROM (
    SELECT number FROM outcome UNION SELECT number FROM event
    UNION SELECT number FROM checkpoint UNION SELECT number FROM control
) WHERE number NOT IN (SELECT number FROM run);

-- name: find_unnumbered
-- Find runs whose next event would get a number that is taken, or leave a gap. It reads the history.
SELECT 'run ' || id, written, number FROM (
    SELECT id, run.number, coalesce(lease.events, outcome.events, 0) AS counted,
        coalesce(chunked, 0) + coalesce(json_array_length(log), 0) AS written
    FROM run LEFT JOIN outcome USING (number) LEFT JOIN lease USING (number)
    LEFT JOIN (SELECT number, sum(json_array_length(body)) AS chunked FROM event GROUP BY number) USING (number)
) WHERE counted <> written;

-- name: find_parked
-- Find users whose parked runs could go on. It reads all seats.
SELECT user || ' in lane ' || lane FROM seat JOIN lane ON lane.name = lane
WHERE parked > 0 AND out = 0 AND (per_user IS NULL OR seat.active < per_user);

-- name: find_held
-- Find sessions whose held runs could go on. It reads all sessions.
SELECT 'session ' || name, name FROM session WHERE held > 0 AND unstarted = 0 AND admitted < max_concurrent;

-- name: unlease
-- Index: the primary key.
DELETE FROM lease WHERE number = ?;

-- name: unready
-- It reads the shelf.
DELETE FROM ready WHERE number = ?;

-- name: unpark
-- It reads the shelf.
DELETE FROM parked WHERE number = ?;

-- name: unhold
-- It reads the shelf.
DELETE FROM held WHERE number = ?;

-- name: undue
-- It reads the shelf.
DELETE FROM due WHERE number = ?;

-- name: put_due
-- Index: the primary key.
INSERT INTO due (rank, number, kind) VALUES (?, ?, ?);

-- name: bury
-- Make an unknown holder known as one that left, so that the next reclaim takes over from it. Index: the unique id.
INSERT INTO worker (id, incarnation, lease, renewed_at, "left")
VALUES (?1, json_object('id', ?1, 'host', '', 'tasks', json('[]'),
    'process', json_object('boot', '', 'namespace', '', 'pid', 0, 'started', 0)), 1, 1, 1);

-- name: join_anew
-- Put what a session holds back onto the due shelf, to join again in the same order. Index: the primary key.
INSERT INTO due (rank, number, kind)
SELECT due_at, held.number, 0 FROM held CROSS JOIN run ON run.number = held.number WHERE held.session = ?;

-- name: hold_nothing
-- Index: the primary key.
DELETE FROM held WHERE session = ?;

-- name: drop_outcome
-- Index: the unique number.
DELETE FROM outcome WHERE number = ?;

-- name: drop_events
-- Index: the unique (number, seq).
DELETE FROM event WHERE number = ?;

-- name: drop_checkpoint
-- Index: the primary key.
DELETE FROM checkpoint WHERE number = ?;

-- name: drop_control
-- Index: the primary key.
DELETE FROM control WHERE number = ?;

-- name: number_lease
-- Index: the primary key.
UPDATE lease SET events = ?1 WHERE number = ?2;

-- name: number_outcome
-- Index: the unique number.
UPDATE outcome SET events = ?1 WHERE number = ?2;

-- name: spots
-- Read where every run is that has not ended. It reads the leases, the shelves and what is paused.
SELECT 'lease', NULL, run.lane, user, session, priority, task, 1 FROM lease CROSS JOIN run USING (number)
UNION ALL
SELECT 'ready', NULL, run.lane, user, session, priority, task, kind FROM ready CROSS JOIN run USING (number)
UNION ALL
SELECT 'parked', gate, run.lane, user, session, priority, task, kind FROM parked CROSS JOIN run USING (number)
UNION ALL
SELECT 'held', NULL, lane, user, run.session, priority, task, 0 FROM held CROSS JOIN run USING (number)
UNION ALL
SELECT 'due', NULL, lane, user, session, priority, task, kind FROM due CROSS JOIN run USING (number)
UNION ALL
SELECT 'paused', NULL, lane, user, session, priority, task, fence > 0
FROM outcome INDEXED BY outcome_kept CROSS JOIN run USING (number)
WHERE state = 'paused' AND ended_at IS NULL AND state <> 'pending';

-- name: count_lanes
-- Read the stored counts of lanes; the keys are those of `core.audit`. It reads the table.
SELECT 'lane', name, 'active', active FROM lane;

-- name: count_paces
-- It reads the table.
SELECT 'pace', lane, priority, 'ready', ready FROM pace;

-- name: count_turns
-- It reads the table.
SELECT 'turn', lane, nullif(user, ''), priority, 'waiting', waiting FROM turn;

-- name: count_seats
-- It reads the table.
SELECT 'seat', lane, user, 'active', active FROM seat UNION ALL SELECT 'seat', lane, user, 'parked', parked FROM seat
UNION ALL SELECT 'seat', lane, user, 'out', out FROM seat;

-- name: count_sessions
-- It reads the table.
SELECT 'session', name, 'admitted', admitted FROM session UNION ALL SELECT 'session', name, 'held', held FROM session
UNION ALL SELECT 'session', name, 'unstarted', unstarted FROM session;

-- name: count_asides
-- It reads the table.
SELECT 'aside', lane, task, 'runs', runs FROM aside;

-- name: set_lane_active
-- Each of the following writes one count, given first, under its key. Index: the primary key.
UPDATE lane SET active = ?1 WHERE name = ?2;

-- name: set_pace_ready
-- Index: the primary key.
INSERT INTO pace (lane, priority, v, ready)
VALUES (?2, ?3, coalesce((SELECT max(v) FROM pace WHERE lane = ?2), 0), ?1)
ON CONFLICT (lane, priority) DO UPDATE SET ready = excluded.ready;

-- name: set_turn_waiting
-- Index: the primary key.
INSERT INTO turn (lane, user, priority, last, waiting) VALUES (?2, coalesce(?3, ''), ?4, 0, ?1)
ON CONFLICT (lane, user, priority) DO UPDATE SET waiting = excluded.waiting;

-- name: set_seat_active
-- Index: the primary key.
INSERT INTO seat (lane, user, active, parked, out) VALUES (?2, ?3, ?1, 0, 0)
ON CONFLICT (lane, user) DO UPDATE SET active = excluded.active;

-- name: set_seat_parked
-- Index: the primary key.
INSERT INTO seat (lane, user, active, parked, out) VALUES (?2, ?3, 0, ?1, 0)
ON CONFLICT (lane, user) DO UPDATE SET parked = excluded.parked;

-- name: set_seat_out
-- Index: the primary key.
INSERT INTO seat (lane, user, active, parked, out) VALUES (?2, ?3, 0, 0, ?1)
ON CONFLICT (lane, user) DO UPDATE SET out = excluded.out;

-- name: set_session_admitted
-- A session whose row was lost begins with one run at a time. Index: the primary key.
INSERT INTO session (name, max_concurrent, admitted, unstarted, held, joined)
VALUES (?2, 1, ?1, 0, 0, coalesce((SELECT max(rank) FROM held WHERE session = ?2), 0))
ON CONFLICT (name) DO UPDATE SET admitted = excluded.admitted;

-- name: set_session_unstarted
-- Index: the primary key.
INSERT INTO session (name, max_concurrent, admitted, unstarted, held, joined)
VALUES (?2, 1, 0, ?1, 0, coalesce((SELECT max(rank) FROM held WHERE session = ?2), 0))
ON CONFLICT (name) DO UPDATE SET unstarted = excluded.unstarted;

-- name: set_session_held
-- Index: the primary key.
INSERT INTO session (name, max_concurrent, admitted, unstarted, held, joined)
VALUES (?2, 1, 0, 0, ?1, coalesce((SELECT max(rank) FROM held WHERE session = ?2), 0))
ON CONFLICT (name) DO UPDATE SET held = excluded.held;

-- name: set_aside_runs
-- Index: the primary key.
INSERT INTO aside (lane, task, runs) VALUES (?2, ?3, ?1) ON CONFLICT (lane, task) DO UPDATE SET runs = excluded.runs;

-- name: tidy_turns
-- It reads the table.
DELETE FROM turn WHERE waiting = 0;

-- name: tidy_seats
-- It reads the table.
DELETE FROM seat WHERE active = 0 AND parked = 0 AND out = 0;

-- name: tidy_sessions
-- It reads the table.
DELETE FROM session WHERE admitted = 0 AND held = 0;

-- name: tidy_asides
-- It reads the table.
DELETE FROM aside WHERE runs = 0;

-- name: all_lanes
-- It reads the table.
SELECT name FROM lane;
