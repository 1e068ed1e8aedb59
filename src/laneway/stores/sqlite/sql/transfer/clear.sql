-- Deleting all that a store has, table by table.

-- name: clear_inbox
-- It reads nothing: in a file nothing is submitted inside others' transactions.
SELECT 1;

-- name: clear_run
-- It reads the table.
DELETE FROM run;

-- name: clear_outcome
-- It reads the table.
DELETE FROM outcome;

-- name: clear_event
-- It reads the table.
DELETE FROM event;

-- name: clear_ready
-- It reads the table.
DELETE FROM ready;

-- name: clear_parked
-- It reads the table.
DELETE FROM parked;

-- name: clear_held
-- It reads the table.
DELETE FROM held;

-- name: clear_due
-- It reads the table.
DELETE FROM due;

-- name: clear_aside
-- It reads the table.
DELETE FROM aside;

-- name: clear_lease
-- It reads the table.
DELETE FROM lease;

-- name: clear_lane
-- It reads the table.
DELETE FROM lane;

-- name: clear_pace
-- It reads the table.
DELETE FROM pace;

-- name: clear_turn
-- It reads the table.
DELETE FROM turn;

-- name: clear_seat
-- It reads the table.
DELETE FROM seat;

-- name: clear_session
-- It reads the table.
DELETE FROM session;

-- name: clear_worker
-- It reads the table.
DELETE FROM worker;

-- name: clear_checkpoint
-- It reads the table.
DELETE FROM checkpoint;

-- name: clear_prepared
-- It reads the table.
DELETE FROM prepared;

-- name: clear_control
-- It reads the table.
DELETE FROM control;

-- name: clear_message
-- It reads the table.
DELETE FROM message;

-- name: clear_key
-- It reads the table.
DELETE FROM key;

-- name: clear_memo
-- It reads the table.
DELETE FROM memo;

-- name: clear_wait
-- It reads the table.
DELETE FROM wait;

-- name: clear_transient
-- It reads the table.
DELETE FROM transient;

-- name: clear_cap
-- It reads the table.
DELETE FROM cap;

-- name: clear_paused
-- It reads the table.
DELETE FROM paused;

-- name: clear_disabled
-- It reads the table.
DELETE FROM disabled;

-- name: clear_session_rule
-- It reads the table.
DELETE FROM session_rule;

-- name: clear_lane_count
-- It reads the table.
DELETE FROM lane_count;

-- name: clear_circuit
-- It reads the table.
DELETE FROM circuit;

-- name: clear_broken
-- It reads the table.
DELETE FROM broken;

-- name: clear_job
-- It reads the table.
DELETE FROM job;

-- name: clear_fire
-- It reads the table.
DELETE FROM fire;

-- name: clear_counter
-- Index: the primary key.
UPDATE counter SET accepted = 0, jobs_at = 0 WHERE one = 1;
