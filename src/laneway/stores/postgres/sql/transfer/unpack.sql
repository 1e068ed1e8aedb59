-- Writing what another store had. Rows that are there already stay as they are.

-- name: set_counters
-- Set the newest acceptance number and the latest time of a job. Index: the primary key.
UPDATE counter SET accepted = $1, jobs_at = $2 WHERE one = 1;

-- name: known
-- Return which of the runs from one number to another are there. Index: the primary key.
SELECT number FROM run WHERE number >= $1 AND number <= $2;

-- name: set_rank
-- Write the rank by which a run is looked up first. Index: the primary key.
UPDATE run SET rank = $1 WHERE number = $2;

-- name: put_lane
-- Write a lane. Index: the primary key.
INSERT INTO lane (name, "limit", per_user, worker_limit, max_pending, when_full, declared, ruled, paused, active,
    pending)
VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::text, $7::text, $8::text, $9::int, $10::int,
    $11::int)
ON CONFLICT DO NOTHING;

-- name: put_pace
-- Write the virtual time of a priority. Index: the primary key.
INSERT INTO pace (lane, priority, v, ready)
VALUES ($1::text, $2::int, $3::bigint, $4::int)
ON CONFLICT DO NOTHING;

-- name: put_lane_count
-- Write a count of submissions. Index: the primary key.
INSERT INTO lane_count (lane, what, count)
VALUES ($1::text, $2::text, $3::bigint)
ON CONFLICT DO NOTHING;

-- name: put_cap
-- Write the cap of a user. Index: the primary key.
INSERT INTO cap ("user", lane, cap)
VALUES ($1::text, $2::text, $3::bigint)
ON CONFLICT DO NOTHING;

-- name: put_paused
-- Write what is paused. Index: the primary key.
INSERT INTO paused (what, name)
VALUES ($1::text, $2::text)
ON CONFLICT DO NOTHING;

-- name: put_disabled
-- Write a disabled task. Index: the primary key.
INSERT INTO disabled (task)
VALUES ($1::text)
ON CONFLICT DO NOTHING;

-- name: put_session_rule
-- Write what operators set of a session. Index: the primary key.
INSERT INTO session_rule (name, rule)
VALUES ($1::text, $2::text)
ON CONFLICT DO NOTHING;

-- name: put_circuit
-- Write a circuit. Index: the primary key.
INSERT INTO circuit (key, task, failures, until)
VALUES ($1::text, $2::text, $3::int, $4::bigint)
ON CONFLICT DO NOTHING;

-- name: put_turn
-- Write a turn. Index: the primary key.
INSERT INTO turn (lane, "user", priority, last, waiting)
VALUES ($1::text, $2::text, $3::int, $4::bigint, $5::int)
ON CONFLICT DO NOTHING;

-- name: put_seat
-- Write a seat. Index: the primary key.
INSERT INTO seat (lane, "user", active, parked, out)
VALUES ($1::text, $2::text, $3::int, $4::int, $5::int)
ON CONFLICT DO NOTHING;

-- name: put_session
-- Write a session. Index: the primary key.
INSERT INTO session (name, admitted, unstarted, held, back, joined, front, rest)
VALUES ($1::text, $2::text, $3::bigint, $4::int, $5::bigint, $6::bigint, $7::bigint, $8::text)
ON CONFLICT DO NOTHING;

-- name: put_job
-- Write a job. Index: the primary key.
INSERT INTO job (id, owner, name, task, source, is_on, fire_at, version, call, created_at, changed_at, spec, state)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::int, $7::bigint, $8::bigint, $9::text, $10::bigint,
    $11::bigint, $12::text, $13::text)
ON CONFLICT DO NOTHING;

-- name: put_fire
-- Write a record of a fire. Index: the primary key.
INSERT INTO fire (job, nth, run_id, record)
VALUES ($1::text, $2::bigint, $3::text, $4::text)
ON CONFLICT DO NOTHING;

-- name: put_key
-- Write a key. Index: the primary key.
INSERT INTO key (task, "user", key, run_id, number, digest, at, gone)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::bigint, $8::int)
ON CONFLICT DO NOTHING;

-- name: put_run
-- Write a run. Index: the primary key, and the unique id.
INSERT INTO run ({run.names})
VALUES ({run.values})
ON CONFLICT DO NOTHING;

-- name: put_outcome
-- Write an outcome. Index: the unique number.
INSERT INTO outcome (number, state, attempt, crashes, fence, events, started_at, ended_at, reason, error, result)
VALUES ($1::bigint, $2::text, $3::int, $4::int, $5::int, $6::int, $7::bigint, $8::bigint, $9::text, $10::text,
    $11::text)
ON CONFLICT DO NOTHING;

-- name: put_event
-- Write a chunk of events. Index: the unique (number, seq).
INSERT INTO event (number, seq, body)
VALUES ($1::bigint, $2::int, $3::text)
ON CONFLICT DO NOTHING;

-- name: put_checkpoint
-- Write a checkpoint. Index: the primary key.
INSERT INTO checkpoint (number, state)
VALUES ($1::bigint, $2::text)
ON CONFLICT DO NOTHING;

-- name: put_prepared
-- Write prepared arguments. Index: the primary key.
INSERT INTO prepared (number, args)
VALUES ($1::bigint, $2::text)
ON CONFLICT DO NOTHING;

-- name: put_control
-- Write the mark of a call. Index: the primary key.
INSERT INTO control (number, call)
VALUES ($1::bigint, $2::text)
ON CONFLICT DO NOTHING;

-- name: put_message
-- Write a message. Index: the unique (number, kind, nth), and message_id.
INSERT INTO message (number, kind, nth, id, task, lane, "user", priority, key, moved, open, read, args)
VALUES ($1::bigint, $2::text, $3::int, $4::text, $5::text, $6::text, $7::text, $8::int, $9::text, $10::int,
    $11::int, $12::int, $13::text)
ON CONFLICT DO NOTHING;

-- name: put_wait
-- Write what a run waits for. Index: the primary key.
INSERT INTO wait (number, until, request, body)
VALUES ($1::bigint, $2::bigint, $3::text, $4::text)
ON CONFLICT DO NOTHING;

-- name: put_transient
-- Write the mark of deltas. Index: the primary key.
INSERT INTO transient (number)
VALUES ($1::bigint)
ON CONFLICT DO NOTHING;

-- name: put_ready
-- Write a ready run. Index: the primary key.
INSERT INTO ready (lane, rank, number, kind)
VALUES ($1::text, $2::bigint, $3::bigint, $4::int)
ON CONFLICT DO NOTHING;

-- name: put_parked
-- Write a parked run. Index: the primary key.
INSERT INTO parked (lane, gate, rank, number, kind)
VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::int)
ON CONFLICT DO NOTHING;

-- name: put_held
-- Write a held run. Index: the primary key.
INSERT INTO held (session, rank, number, kind, paused)
VALUES ($1::text, $2::bigint, $3::bigint, $4::int, $5::int)
ON CONFLICT DO NOTHING;

-- name: put_due
-- Write a future run. Index: the primary key.
INSERT INTO due (rank, number, kind, session)
VALUES ($1::bigint, $2::bigint, $3::int, $4::text)
ON CONFLICT DO NOTHING;
