-- Does everything agree? People run these queries, rarely: most read whole shelves, some the whole history.
--
-- A `find_` statement returns, for one kind of mistake, each case: a name for people, then the parameters of the
-- statements that repair it.

-- name: find_unknown
-- Find leases and shelf entries without a run. It reads the shelves.
SELECT 'run number ' || number, number FROM (
    SELECT number FROM lease UNION SELECT number FROM ready UNION SELECT number FROM parked
    UNION SELECT number FROM held UNION SELECT number FROM due
) WHERE number NOT IN (SELECT number FROM run);

-- name: find_undead
-- Find leases and shelf entries whose runs have ended. It reads the shelves.
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

-- name: find_waiting
-- Find runs that wait for nothing. It reads the index outcome_kept.
SELECT 'run ' || id, run.number
FROM outcome INDEXED BY outcome_kept CROSS JOIN run USING (number) LEFT JOIN wait USING (number)
WHERE state = 'waiting' AND ended_at IS NULL AND state <> 'pending' AND wait.number IS NULL;

-- name: find_late
-- Find deadlines of questions whose runs do not wait. It reads the index wait_until.
SELECT 'run ' || coalesce(id, wait.number), wait.number
FROM wait INDEXED BY wait_until LEFT JOIN run USING (number) LEFT JOIN outcome USING (number)
LEFT JOIN lease USING (number)
WHERE until IS NOT NULL AND (lease.number IS NOT NULL OR state IS NOT 'waiting');

-- name: find_stranded
-- Find pending runs that are on no shelf, as rows for `due`: from there a claim finds each at once. `kind` is 1 for a
-- run that was claimed before. It reads all runs.
SELECT 'run ' || id, coalesce(outcome.due_at, run.due_at), run.number, coalesce(fence, 0) > 0, session
FROM run LEFT JOIN outcome USING (number)
WHERE coalesce(state, 'pending') = 'pending' AND run.number NOT IN (
    SELECT number FROM lease UNION ALL SELECT number FROM ready UNION ALL SELECT number FROM parked
    UNION ALL SELECT number FROM held UNION ALL SELECT number FROM due
);

-- name: find_unheld
-- Find holders of leases that are no known incarnation: nobody would take over from them. It reads all leases.
SELECT DISTINCT 'worker ' || holder, holder FROM lease WHERE holder NOT IN (SELECT id FROM worker);

-- name: find_unprobed
-- Find circuits that wait for a probe which nobody executes under that lease. It reads the table.
SELECT 'the breaker of task ' || replace(key, char(10), ' of user '), key FROM circuit LEFT JOIN lease ON lease.number = probe
WHERE probe IS NOT NULL AND lease.fence IS NOT circuit.fence;

-- name: find_orphans
-- Find results, events, messages and other rows of runs that do not exist. It reads the history.
SELECT DISTINCT 'run number ' || number, number FROM (
    SELECT number FROM outcome UNION SELECT number FROM event
    UNION SELECT number FROM checkpoint UNION SELECT number FROM prepared UNION SELECT number FROM control
    UNION SELECT number FROM message UNION SELECT number FROM memo UNION SELECT number FROM wait
    UNION SELECT number FROM transient
) WHERE number NOT IN (SELECT number FROM run);

-- name: find_mistimed
-- Find jobs whose fire time differs from their state. It reads the table.
SELECT 'job ' || name, id FROM job WHERE fire_at IS NOT state ->> '$.fire_at';

-- name: time_job
-- Write the fire time of a job. Index: the unique id.
UPDATE job SET fire_at = state ->> '$.fire_at' WHERE id = ?1;

-- name: find_stray_fires
-- Find records of jobs that do not exist. It reads the table.
SELECT DISTINCT 'job ' || job, job FROM fire WHERE job NOT IN (SELECT id FROM job);

-- name: drop_fires
-- Delete the records of a job. Index: the primary key.
DELETE FROM fire WHERE job = ?1;

-- name: find_unnumbered
-- Find runs whose next event would get a number that is taken, or leave a gap. It reads the history. A mark of trimmed
-- deltas counts for all that it covers; it never stands in the last chunk of a run that has ended.
SELECT 'run ' || id, written, number FROM (
    SELECT id, run.number, coalesce(lease.events, outcome.events, 0) AS counted,
        coalesce(chunked, 0) + coalesce(json_array_length(log), 0) AS written
    FROM run LEFT JOIN outcome USING (number) LEFT JOIN lease USING (number)
    LEFT JOIN (
        SELECT number, sum(json_array_length(body) + iif(instr(body, '["trimmed",'), (
            SELECT coalesce(sum(json_extract(value, '$[3].events') - 1), 0) FROM json_each(body)
            WHERE json_extract(value, '$[0]') = 'trimmed'
        ), 0)) AS chunked
        FROM event GROUP BY number
    ) USING (number)
) WHERE counted <> written;

-- name: find_parked
-- Find users who are not paused and whose parked runs could start. It reads all seats.
SELECT seat.user || ' in lane ' || seat.lane FROM seat JOIN lane ON lane.name = seat.lane
LEFT JOIN cap ON cap.user = seat.user AND cap.lane = seat.lane
WHERE parked > 0 AND out = 0 AND seat.active < coalesce(cap, per_user, seat.active + 1)
    AND NOT EXISTS (SELECT 1 FROM paused WHERE what = 'user' AND name = seat.user);

-- name: unlease
-- Delete a lease. Index: the primary key.
DELETE FROM lease WHERE number = ?;

-- name: unready
-- Delete a ready run. It reads the shelf.
DELETE FROM ready WHERE number = ?;

-- name: unpark
-- Delete a parked run. It reads the shelf.
DELETE FROM parked WHERE number = ?;

-- name: unhold
-- Delete a held run. It reads the shelf.
DELETE FROM held WHERE number = ?;

-- name: undue
-- Delete a future run. It reads the shelf.
DELETE FROM due WHERE number = ?;

-- name: unwait
-- End the wait of a run; it is stranded then, and repaired as such. Index: the unique number.
UPDATE outcome SET state = 'pending' WHERE number = ?;

-- name: unask
-- Delete the deadline of a question. Index: the primary key.
UPDATE wait SET until = NULL, request = NULL WHERE number = ?;

-- name: put_due
-- Put a stranded run onto the future shelf. Index: the primary key.
INSERT INTO due (rank, number, kind, session) VALUES (?, ?, ?, ?);

-- name: unprobe
-- Delete the probe of a circuit. Index: the primary key.
UPDATE circuit SET probe = NULL, fence = NULL WHERE key = ?;

-- name: bury
-- Add an unknown holder as an incarnation that has left, so that the next reclaim takes over from it. Index: the unique
-- id.
INSERT INTO worker (id, incarnation, lease, renewed_at, "left")
VALUES (?1, json_object('id', ?1, 'host', '', 'tasks', json('[]'),
    'process', json_object('boot', '', 'namespace', '', 'pid', 0, 'started', 0)), 1, 1, 1);

-- name: drop_outcome
-- Delete an outcome. Index: the unique number.
DELETE FROM outcome WHERE number = ?;

-- name: drop_events
-- Delete the events of a run. Index: the unique (number, seq).
DELETE FROM event WHERE number = ?;

-- name: drop_checkpoint
-- Delete a checkpoint. Index: the primary key.
DELETE FROM checkpoint WHERE number = ?;

-- name: drop_control
-- Delete the mark of a call. Index: the primary key.
DELETE FROM control WHERE number = ?;

-- name: drop_prepared
-- Delete prepared arguments. Index: the primary key.
DELETE FROM prepared WHERE number = ?;

-- name: drop_transient
-- Delete the mark of deltas. Index: the primary key.
DELETE FROM transient WHERE number = ?;

-- name: drop_messages
-- Delete the messages of a run. Index: the unique (number, kind, nth).
DELETE FROM message WHERE number = ?;

-- name: drop_memos
-- Delete the memos of a run. Index: the unique (number, kind, name).
DELETE FROM memo WHERE number = ?;

-- name: drop_wait
-- Delete what a run waited for. Index: the primary key.
DELETE FROM wait WHERE number = ?;

-- name: number_lease
-- Correct the number of events under a lease. Index: the primary key.
UPDATE lease SET events = ?1 WHERE number = ?2;

-- name: number_outcome
-- Correct the number of events in an outcome. Index: the unique number.
UPDATE outcome SET events = ?1 WHERE number = ?2;

-- name: spots
-- Read where each run is that has not ended, as `Spot` has it; the session adds its part later. It reads the leases,
-- the shelves, and the runs that are paused or wait.
SELECT 'lease', NULL, run.lane, user, session, priority, task, 1, number, '', 0 FROM lease CROSS JOIN run USING (number)
UNION ALL
SELECT 'ready', NULL, run.lane, user, session, priority, task, kind, number, '', 0 FROM ready CROSS JOIN run USING (number)
UNION ALL
SELECT 'parked', gate, run.lane, user, session, priority, task, kind, number, '', 0 FROM parked CROSS JOIN run USING (number)
UNION ALL
SELECT 'held', NULL, lane, user, run.session, priority, task, kind, number, '', paused FROM held CROSS JOIN run USING (number)
UNION ALL
SELECT 'due', NULL, lane, user, run.session, priority, task, kind, number, '', 0 FROM due CROSS JOIN run USING (number)
UNION ALL
SELECT 'paused', NULL, lane, user, session, priority, task, fence > 0, number, '', 1
FROM outcome INDEXED BY outcome_kept CROSS JOIN run USING (number)
WHERE state = 'paused' AND ended_at IS NULL AND state <> 'pending' AND number NOT IN (SELECT number FROM held)
UNION ALL
SELECT 'waiting', iif(until IS NULL, NULL, 'asking'), lane, user, session, priority, task, 1, number, '', 0
FROM outcome INDEXED BY outcome_kept CROSS JOIN run USING (number) LEFT JOIN wait USING (number)
WHERE state = 'waiting' AND ended_at IS NULL AND state <> 'pending';

-- name: sessions
-- Return the names of all sessions. It reads the table.
SELECT name FROM session;

-- name: count_lanes
-- Read the stored counts of lanes; the keys are those of `core.queue.audit`. It reads the table.
SELECT 'lane', name, 'active', active FROM lane UNION ALL SELECT 'lane', name, 'pending', pending FROM lane;

-- name: count_paces
-- Read the stored counts of priorities. It reads the table.
SELECT 'pace', lane, priority, 'ready', ready FROM pace;

-- name: count_turns
-- Read the stored counts of turns. It reads the table.
SELECT 'turn', lane, nullif(user, ''), priority, 'waiting', waiting FROM turn;

-- name: count_seats
-- Read the stored counts of seats. It reads the table.
SELECT 'seat', lane, user, 'active', active FROM seat UNION ALL SELECT 'seat', lane, user, 'parked', parked FROM seat
UNION ALL SELECT 'seat', lane, user, 'out', out FROM seat;

-- name: count_asides
-- Read the stored numbers of runs set aside. It reads the table.
SELECT 'aside', lane, task, 'runs', runs FROM aside;

-- name: count_broken
-- Read the stored numbers of runs parked behind circuits. It reads the table.
SELECT 'broken', lane, key, 'runs', runs FROM broken;

-- name: set_lane_active
-- Write a count, given first, under its key; so do the following. Index: the primary key.
UPDATE lane SET active = ?1 WHERE name = ?2;

-- name: set_lane_pending
-- Write a count. Index: the primary key.
UPDATE lane SET pending = ?1 WHERE name = ?2;

-- name: set_pace_ready
-- Write a count. Index: the primary key.
INSERT INTO pace (lane, priority, v, ready)
VALUES (?2, ?3, coalesce((SELECT max(v) FROM pace WHERE lane = ?2), 0), ?1)
ON CONFLICT (lane, priority) DO UPDATE SET ready = excluded.ready;

-- name: set_turn_waiting
-- Write a count. Index: the primary key.
INSERT INTO turn (lane, user, priority, last, waiting) VALUES (?2, coalesce(?3, ''), ?4, 0, ?1)
ON CONFLICT (lane, user, priority) DO UPDATE SET waiting = excluded.waiting;

-- name: set_seat_active
-- Write a count. Index: the primary key.
INSERT INTO seat (lane, user, active, parked, out) VALUES (?2, ?3, ?1, 0, 0)
ON CONFLICT (lane, user) DO UPDATE SET active = excluded.active;

-- name: set_seat_parked
-- Write a count. Index: the primary key.
INSERT INTO seat (lane, user, active, parked, out) VALUES (?2, ?3, 0, ?1, 0)
ON CONFLICT (lane, user) DO UPDATE SET parked = excluded.parked;

-- name: set_seat_out
-- Write a count. Index: the primary key.
INSERT INTO seat (lane, user, active, parked, out) VALUES (?2, ?3, 0, 0, ?1)
ON CONFLICT (lane, user) DO UPDATE SET out = excluded.out;

-- name: last_held
-- Read the first and the last place at which a session holds runs. Index: the primary key.
SELECT min(rank), max(rank) FROM held WHERE session = ?;

-- name: set_aside_runs
-- Write a count. Index: the primary key.
INSERT INTO aside (lane, task, runs) VALUES (?2, ?3, ?1) ON CONFLICT (lane, task) DO UPDATE SET runs = excluded.runs;

-- name: set_broken_runs
-- Write a count. Index: the primary key.
INSERT INTO broken (lane, key, runs) VALUES (?2, ?3, ?1) ON CONFLICT (lane, key) DO UPDATE SET runs = excluded.runs;

-- name: tidy_broken
-- Delete rows that count nothing. It reads the table.
DELETE FROM broken WHERE runs = 0;

-- name: tidy_turns
-- Delete rows that count nothing. It reads the table.
DELETE FROM turn WHERE waiting = 0;

-- name: tidy_seats
-- Delete rows that count nothing. It reads the table.
DELETE FROM seat WHERE active = 0 AND parked = 0 AND out = 0;

-- name: tidy_asides
-- Delete rows that count nothing. It reads the table.
DELETE FROM aside WHERE runs = 0;

-- name: all_lanes
-- Return the names of all lanes. It reads the table.
SELECT name FROM lane;
