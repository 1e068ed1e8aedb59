-- The shelves of pending runs. Each is read from its front in pages, and what was taken is deleted as one range. Every
-- page has the columns kind, rank, number, id, task, args, lane, user, session, priority, ties; where needed also
-- whether the run is paused, and its session intent for the time when it joins.

-- name: ready
-- Read a lane's ready order behind a key, and from its floor on: what was taken before that may be dead and not yet
-- vacuumed, and would be passed by at every claim. Index: the primary key of ready, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, run.lane, "user", session, priority, ties
FROM ready AS shelf JOIN run ON run.number = shelf.number
WHERE shelf.lane = $1 AND (shelf.rank, shelf.number) > (greatest($2::bigint, (
    SELECT floor - 1 FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1
)), $3::bigint)
ORDER BY shelf.rank, shelf.number LIMIT $4;

-- name: put_ready
-- Put runs into their lanes' ready orders. Invariant: none is there below its lane's floor. Index: the primary keys.
WITH put AS (
    INSERT INTO ready (lane, rank, number, kind) VALUES ($1::text, $2::bigint, $3::bigint, $4::int)
    RETURNING lane, rank
)
UPDATE lane SET floor = lowest.rank FROM (SELECT lane, min(rank) AS rank FROM put GROUP BY lane) AS lowest
WHERE name = lowest.lane AND floor > lowest.rank
    AND era = (SELECT era FROM lane AS newest WHERE newest.name = lowest.lane ORDER BY era DESC LIMIT 1);

-- name: drop_ready
-- Delete a lane's ready runs up to a key, and raise its floor to there. Index: the primary keys.
WITH raised AS (
    UPDATE lane SET floor = $2
    WHERE name = $1 AND floor < $2 AND era = (SELECT era FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1)
)
DELETE FROM ready WHERE lane = $1 AND (rank, number) <= ($2, $3) AND (rank, number) > ((
    SELECT floor - 1 FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1
), 0);

-- name: parked
-- Read a parked set behind a key. Index: the primary key of parked, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, run.lane, "user", session, priority, ties
FROM parked AS shelf JOIN run ON run.number = shelf.number
WHERE shelf.lane = $1 AND gate = $2 AND (shelf.rank, shelf.number) > ($3, $4)
ORDER BY shelf.rank, shelf.number LIMIT $5;

-- name: first_parked
-- Read the first runs (this many, and those of the same rank) of each of these parked sets, given as [lane, gate].
-- Index: the primary key of parked.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, run.lane, "user", session, priority, ties, gate
FROM json_array_elements($1::json) AS wanted(value)
CROSS JOIN LATERAL (
    SELECT kind, rank, number, gate FROM parked
    WHERE parked.lane = wanted.value ->> 0 AND gate = wanted.value ->> 1 AND rank <= coalesce((
        SELECT rank FROM parked AS other WHERE other.lane = wanted.value ->> 0 AND other.gate = wanted.value ->> 1
        ORDER BY rank, number LIMIT 1 OFFSET $2 - 1
    ), 9223372036854775807)
    OFFSET 0
) AS shelf
JOIN run ON run.number = shelf.number;

-- name: put_parked
-- Put runs into parked sets. Index: the primary key.
INSERT INTO parked (lane, gate, rank, number, kind) VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::int);

-- name: drop_parked
-- Delete a parked set up to a key. Index: the primary key.
DELETE FROM parked WHERE lane = $1::text AND gate = $2::text AND (rank, number) <= ($3::bigint, $4::bigint);

-- name: held
-- Read the runs that a session holds back, behind a key. Index: the primary key of held, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, "user", run.session, priority, ties, paused
FROM held AS shelf JOIN run ON run.number = shelf.number
WHERE shelf.session = $1 AND (shelf.rank, shelf.number) > ($2, $3) ORDER BY shelf.rank, shelf.number LIMIT $4;

-- name: first_held
-- Read the first eight runs that each of these sessions holds back. Index: the primary keys.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, "user", run.session, priority, ties, paused
FROM json_array_elements_text($1::json) AS wanted(value)
CROSS JOIN LATERAL (
    SELECT kind, rank, number, paused FROM held WHERE session = wanted.value ORDER BY rank, number LIMIT 8
) AS shelf
JOIN run ON run.number = shelf.number;

-- name: put_held
-- Put runs behind their sessions. Index: the primary key.
INSERT INTO held (session, rank, number, kind, paused) VALUES ($1::text, $2::bigint, $3::bigint, $4::int, $5::int);

-- name: drop_held
-- Delete the runs that a session holds back, up to a key. Index: the primary key.
DELETE FROM held WHERE session = $1::text AND (rank, number) <= ($2::bigint, $3::bigint);

-- name: first_due
-- Read the first future runs, due or not: the query is sent before the transaction knows the time. Index: the primary
-- key of due, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, "user", run.session, priority, ties, 0,
    arrival
FROM due AS shelf JOIN run ON run.number = shelf.number ORDER BY shelf.rank, shelf.number LIMIT $1;

-- name: due
-- Read the runs that are due by an instant. Index: the primary key of due, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, "user", run.session, priority, ties, 0,
    arrival
FROM due AS shelf JOIN run ON run.number = shelf.number
WHERE shelf.rank <= $1 ORDER BY shelf.rank, shelf.number LIMIT $2;

-- name: due_after
-- Return when the first future run behind an instant is due. Index: the primary key.
SELECT min(rank) FROM due WHERE rank > $1;

-- name: put_due
-- Put runs onto the future shelf. Index: the primary key.
INSERT INTO due (rank, number, kind, session) VALUES ($1::bigint, $2::bigint, $3::int, $4::text);

-- name: drop_due
-- Delete the future runs up to a key. Index: the primary key.
DELETE FROM due WHERE (rank, number) <= ($1::bigint, $2::bigint);

-- name: asides
-- Count the runs set aside, per lane and task. It reads the table, a row per lane and task.
SELECT lane, task, runs FROM aside;

-- name: set_aside
-- Write the number of runs set aside of a task in a lane. Index: the primary key.
INSERT INTO aside (lane, task, runs)
VALUES ($1::text, $2::text, $3::int) ON CONFLICT (lane, task) DO UPDATE SET runs = excluded.runs;

-- name: drop_aside
-- Delete a number that is zero. Index: the primary key.
DELETE FROM aside WHERE lane = $1::text AND task = $2::text;

-- name: tried
-- Read the attempts of these runs, and what those attempts left. Index: the primary key of outcome, the primary keys.
SELECT outcome.number, attempt, crashes, fence, events, checkpoint.state, prepared.args,
    (SELECT count(*) FROM memo WHERE memo.number = outcome.number)
FROM outcome LEFT JOIN checkpoint ON checkpoint.number = outcome.number
LEFT JOIN prepared ON prepared.number = outcome.number
WHERE outcome.number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: find
-- Find where a pending run is. Looked up first: its due time, and the key at its acceptance, which is right for most;
-- then the only key it can have while its session is paused; then the runs that its session holds back, its parked sets
-- and, from the front, its lane's ready runs (a run that came back is near the front). The query stops at the first
-- branch that finds the run. Index: the primary keys, whole or by their first columns.
SELECT 'due', '', rank, kind FROM due WHERE rank = $7 AND number = $1
UNION ALL SELECT 'ready', '', rank, kind FROM ready WHERE lane = $2 AND rank = $6 AND number = $1
UNION ALL SELECT 'held', '', rank, kind FROM held WHERE session = $5 AND rank = $6 AND number = $1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked
WHERE lane = $2 AND gate IN (
        'user:' || $3, 'task:' || $4, 'breaker:' || $4, 'breaker:' || $4 || chr(10) || coalesce($3, '')
    ) AND rank = $6 AND number = $1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked
WHERE lane = $2 AND gate = 'session:' || $5 AND rank = 0 AND number = $1
UNION ALL SELECT 'held', '', rank, kind FROM held WHERE session = $5 AND number = $1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked WHERE lane = $2 AND gate = 'user:' || $3 AND number = $1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked WHERE lane = $2 AND gate = 'task:' || $4 AND number = $1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked WHERE lane = $2 AND gate = 'breaker:' || $4 AND number = $1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked
WHERE lane = $2 AND gate = 'breaker:' || $4 || chr(10) || coalesce($3, '') AND number = $1
UNION ALL SELECT 'ready', '', rank, kind FROM ready WHERE lane = $2 AND number = $1
LIMIT 1;

-- name: remove_ready
-- Delete one ready run. Index: the primary key.
DELETE FROM ready WHERE lane = $1::text AND rank = $2::bigint AND number = $3::bigint;

-- name: remove_parked
-- Delete one parked run. Index: the primary key.
DELETE FROM parked WHERE lane = $1::text AND gate = $2::text AND rank = $3::bigint AND number = $4::bigint;

-- name: remove_held
-- Delete one held run. Index: the primary key.
DELETE FROM held WHERE session = $1::text AND rank = $2::bigint AND number = $3::bigint;

-- name: remove_due
-- Delete one future run. Index: the primary key.
DELETE FROM due WHERE rank = $1::bigint AND number = $2::bigint;

-- name: bodies
-- Read the id and arguments of these runs, and what their attempts left. Index: the primary keys, and the primary
-- key of memo.
SELECT run.number, run.id, run.args, checkpoint.state, prepared.args,
    (SELECT count(*) FROM memo WHERE memo.number = run.number)
FROM run LEFT JOIN checkpoint ON checkpoint.number = run.number
LEFT JOIN prepared ON prepared.number = run.number
WHERE run.number = ANY (translate($1, '[]', '{}')::bigint[]);

-- name: held_run
-- Return the place at which a session holds a run. Index: the primary key, by its first column.
SELECT rank FROM held WHERE session = $1 AND number = $2;

-- name: pause_held
-- Mark a held run as paused, or not. Index: the primary key.
UPDATE held SET paused = $1 WHERE session = $2 AND rank = $3 AND number = $4;
