-- Deleting everything a store has, table by table.

-- name: clear_inbox
-- Delete table `inbox`. It reads nothing: in a file nothing is submitted inside others' transactions.
SELECT 1;

-- name: clear_run
-- Delete table `run`. It reads the table.
DELETE FROM run;

-- name: clear_outcome
-- Delete table `outcome`. It reads the table.
DELETE FROM outcome;

-- name: clear_event
-- Delete table `event`. It reads the table.
DELETE FROM event;

-- name: clear_ready
-- Delete table `ready`. It reads the table.
DELETE FROM ready;

-- name: clear_parked
-- Delete table `parked`. It reads the table.
DELETE FROM parked;

-- name: clear_held
-- Delete table `held`. It reads the table.
DELETE FROM held;

-- name: clear_due
-- Delete table `due`. It reads the table.
DELETE FROM due;

-- name: clear_aside
-- Delete table `aside`. It reads the table.
DELETE FROM aside;

-- name: clear_lease
-- Delete table `lease`. It reads the table.
DELETE FROM lease;

-- name: clear_lane
-- Delete table `lane`. It reads the table.
DELETE FROM lane;

-- name: clear_pace
-- Delete table `pace`. It reads the table.
DELETE FROM pace;

-- name: clear_turn
-- Delete table `turn`. It reads the table.
DELETE FROM turn;

-- name: clear_seat
-- Delete table `seat`. It reads the table.
DELETE FROM seat;

-- name: clear_session
-- Delete table `session`. It reads the table.
DELETE FROM session;

-- name: clear_worker
-- Delete table `worker`. It reads the table.
DELETE FROM worker;

-- name: clear_checkpoint
-- Delete table `checkpoint`. It reads the table.
DELETE FROM checkpoint;

-- name: clear_prepared
-- Delete table `prepared`. It reads the table.
DELETE FROM prepared;

-- name: clear_control
-- Delete table `control`. It reads the table.
DELETE FROM control;

-- name: clear_message
-- Delete table `message`. It reads the table.
DELETE FROM message;

-- name: clear_key
-- Delete table `key`. It reads the table.
DELETE FROM key;

-- name: clear_memo
-- Delete table `memo`. It reads the table.
DELETE FROM memo;

-- name: clear_wait
-- Delete table `wait`. It reads the table.
DELETE FROM wait;

-- name: clear_transient
-- Delete table `transient`. It reads the table.
DELETE FROM transient;

-- name: clear_cap
-- Delete table `cap`. It reads the table.
DELETE FROM cap;

-- name: clear_paused
-- Delete table `paused`. It reads the table.
DELETE FROM paused;

-- name: clear_disabled
-- Delete table `disabled`. It reads the table.
DELETE FROM disabled;

-- name: clear_session_rule
-- Delete table `session_rule`. It reads the table.
DELETE FROM session_rule;

-- name: clear_lane_count
-- Delete table `lane_count`. It reads the table.
DELETE FROM lane_count;

-- name: clear_circuit
-- Delete table `circuit`. It reads the table.
DELETE FROM circuit;

-- name: clear_broken
-- Delete table `broken`. It reads the table.
DELETE FROM broken;

-- name: clear_job
-- Delete table `job`. It reads the table.
DELETE FROM job;

-- name: clear_fire
-- Delete table `fire`. It reads the table.
DELETE FROM fire;

-- name: clear_counter
-- Reset the counters. Index: the primary key.
UPDATE counter SET accepted = 0, jobs_at = 0 WHERE one = 1;
