-- What a writing verb reads first.

-- name: header
-- Read the last acceptance number, when the next future run is due, whether a worker other than the caller is idle,
-- whether one of the caller's runs has a request, and whether runs that were never started have a log (they were
-- resumed, or took messages). The counter is behind the newest run until runs are pruned. Index: primary keys,
-- worker_idle, lease_requested and outcome_resumed.
SELECT max(accepted, coalesce((SELECT max(number) FROM run), 0)), (SELECT min(rank) FROM due),
    EXISTS (SELECT 1 FROM worker INDEXED BY worker_idle WHERE idle AND id IS NOT ?1),
    EXISTS (SELECT 1 FROM lease INDEXED BY lease_requested WHERE holder = ?1 AND request IS NOT NULL),
    EXISTS (SELECT 1 FROM outcome INDEXED BY outcome_resumed WHERE fence = 0 AND state = 'pending')
FROM counter WHERE one = 1;

-- name: flags
-- Read what is the same in most transactions: the earliest deadline of a question, whether runs are set aside, whether
-- there are messages, and whether some are of runs that have not ended; whether operators have set something of users,
-- paused tasks, disabled tasks, or set something of sessions; whether there are circuits, and whether runs are parked
-- behind any; when the first job is due, and whether the store has a part in a move. Index: primary keys, wait_until,
-- message_open and job_due.
SELECT (SELECT min(until) FROM wait INDEXED BY wait_until WHERE until IS NOT NULL),
    EXISTS (SELECT 1 FROM aside),
    (SELECT max(rowid) FROM message) IS NOT NULL,
    (SELECT min(number) FROM message INDEXED BY message_open WHERE open) IS NOT NULL,
    (SELECT min(user) FROM cap) IS NOT NULL OR EXISTS (SELECT 1 FROM paused WHERE what = 'user'),
    EXISTS (SELECT 1 FROM paused WHERE what = 'task'), (SELECT min(task) FROM disabled) IS NOT NULL,
    (SELECT min(name) FROM session_rule) IS NOT NULL OR EXISTS (SELECT 1 FROM paused WHERE what = 'session'),
    (SELECT min(key) FROM circuit) IS NOT NULL, (SELECT min(lane) FROM broken) IS NOT NULL,
    (SELECT min(fire_at) FROM job INDEXED BY job_due WHERE fire_at IS NOT NULL),
    EXISTS (SELECT 1 FROM moving WHERE one = 1);

-- name: next_due
-- Return the earliest of: the next future run, the next deadline of a question, the next try of a circuit that has
-- parked runs. Index: the primary keys, and wait_until; it reads broken, a row per lane and circuit that has some.
SELECT min(soonest) FROM (
    SELECT min(rank) AS soonest FROM due
    UNION ALL SELECT min(until) FROM wait INDEXED BY wait_until WHERE until IS NOT NULL
    UNION ALL SELECT min(until) FROM broken CROSS JOIN circuit ON circuit.key = broken.key
    WHERE until > ? AND until < 9223372036854775807
);
