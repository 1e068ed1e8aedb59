-- Reading everything a store has, in pages.

-- name: counters
-- Read the newest acceptance number and the latest time of a job. Index: the primary keys.
SELECT greatest(accepted, (SELECT max(number) FROM run)), jobs_at FROM counter WHERE one = 1;

-- name: lanes
-- Read the lanes. It reads the table.
SELECT name, "limit", per_user, worker_limit, max_pending, when_full, declared, ruled, paused, active, pending
FROM lane ORDER BY name;

-- name: paces
-- Read the virtual time of the priorities of lanes. It reads the table.
SELECT lane, priority, v, ready FROM pace ORDER BY lane, priority;

-- name: counts
-- Read the counts of submissions. It reads the table.
SELECT lane, what, count FROM lane_count ORDER BY lane, what;

-- name: caps
-- Read the caps of users. It reads the table.
SELECT "user", lane, cap FROM cap ORDER BY "user", lane;

-- name: paused
-- Read what is paused. It reads the table.
SELECT what, name FROM paused ORDER BY what, name;

-- name: disabled
-- Read which tasks are disabled. It reads the table.
SELECT task FROM disabled ORDER BY task;

-- name: rules
-- Read what operators set of sessions. It reads the table.
SELECT name, rule FROM session_rule ORDER BY name;

-- name: circuits
-- Read the circuits. It reads the table.
SELECT key, failures, until FROM circuit ORDER BY key;

-- name: turns
-- Read turns behind one, of users with waiting runs. Index: the primary key.
SELECT lane, "user", priority, last, waiting FROM turn
WHERE (lane, "user", priority) > ($1, $2, $3::bigint) AND waiting > 0
ORDER BY lane, "user", priority LIMIT $4;

-- name: seats
-- Read seats behind one. Index: the primary key.
SELECT lane, "user", active, parked, out FROM seat WHERE (lane, "user") > ($1, $2) ORDER BY lane, "user" LIMIT $3;

-- name: sessions
-- Read sessions behind one, as `counts.sessions` does. Index: the primary key.
SELECT name, admitted, unstarted, held, back, joined, front, rest
FROM session WHERE name > $1 ORDER BY name LIMIT $2;

-- name: jobs
-- Read jobs behind one. Index: the primary key.
SELECT id, spec, state, created_at, changed_at, version, call FROM job WHERE id > $1 ORDER BY id LIMIT $2;

-- name: fires
-- Read the records of the jobs from one to another. Index: the primary key.
SELECT job, record FROM fire WHERE job >= $1 AND job <= $2 ORDER BY job, nth;

-- name: keys
-- Read, behind one, the keys whose runs are deleted. Index: the primary key; it reads others, too.
SELECT task, "user", key, digest, at, run_id, number FROM key WHERE (task, "user", key) > ($1, $2, $3) AND gone <> 0
ORDER BY task, "user", key LIMIT $4;

-- name: runs
-- Read runs behind one. Index: the primary keys.
SELECT {run.columns}, coalesce(outcome.due_at, run.due_at), coalesce(outcome.state, 'pending'), coalesce(attempt, 1),
    coalesce(fence, 0), coalesce(crashes, 0), started_at, outcome.ended_at, reason, error, result, wait.request,
    wait.body, control.call, checkpoint.state, prepared.args, outcome.events, outcome.log, transient.number
FROM run
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN wait ON wait.number = run.number
LEFT JOIN control ON control.number = run.number
LEFT JOIN checkpoint ON checkpoint.number = run.number
LEFT JOIN prepared ON prepared.number = run.number
LEFT JOIN transient ON transient.number = run.number
WHERE run.number > $1 ORDER BY run.number LIMIT $2;

-- name: events
-- Read the chunks of the runs from one to another. Index: the unique (number, seq).
SELECT number, body FROM event WHERE number >= $1 AND number <= $2 ORDER BY number, seq;

-- name: memos
-- Read the memos of the runs from one to another. Index: the unique (number, kind, name); it sorts them.
SELECT number, body FROM memo WHERE number >= $1 AND number <= $2 ORDER BY number, id;

-- name: messages
-- Read the messages that the runs from one to another took. Index: the unique (number, kind, nth).
SELECT number, id, kind, nth, task, args, lane, "user", priority, key, moved, read
FROM message WHERE number >= $1 AND number <= $2 ORDER BY number, kind, nth;

-- name: run_keys
-- Read the keys of the runs from one to another. Index: key_number; it sorts them.
SELECT number, task, "user", key, digest, at FROM key WHERE number >= $1 AND number <= $2 AND gone = 0
ORDER BY number, task, "user", key;

-- name: ready
-- Read the ready runs behind a key. Index: the primary key.
SELECT lane, rank, number, kind FROM ready WHERE (lane, rank, number) > ($1, $2, $3) ORDER BY lane, rank, number
    LIMIT $4;

-- name: parked
-- Read the parked runs behind a key. Index: the primary key.
SELECT lane, gate, rank, number, kind FROM parked WHERE (lane, gate, rank, number) > ($1, $2, $3, $4)
ORDER BY lane, gate, rank, number LIMIT $5;

-- name: held
-- Read the held runs behind a key. Index: the primary key.
SELECT session, rank, number, kind, paused FROM held WHERE (session, rank, number) > ($1, $2, $3)
ORDER BY session, rank, number LIMIT $4;

-- name: due
-- Read the future runs behind a key. Index: the primary key.
SELECT rank, number, kind, session FROM due WHERE (rank, number) > ($1, $2) ORDER BY rank, number LIMIT $3;
