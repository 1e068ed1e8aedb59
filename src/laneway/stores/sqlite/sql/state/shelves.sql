-- The shelves of pending runs. Each is read from its front in pages, and what was taken is deleted as one range. Every
-- page has the columns kind, rank, number, id, task, args, lane, user, session, priority, ties; where needed also
-- whether the run is paused, and its session intent for the time when it joins.

-- name: ready
-- Read a lane's ready order behind a key. Index: the primary key of ready, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, run.lane, user, session, priority, ties
FROM ready AS shelf CROSS JOIN run ON run.number = shelf.number
WHERE shelf.lane = ?1 AND (shelf.rank, shelf.number) > (?2, ?3) ORDER BY shelf.rank, shelf.number LIMIT ?4;

-- name: put_ready
-- Index: the primary key.
INSERT INTO ready (lane, rank, number, kind) VALUES (?, ?, ?, ?);

-- name: drop_ready
-- Delete a lane's ready runs up to a key. Index: the primary key.
DELETE FROM ready WHERE lane = ? AND (rank, number) <= (?, ?);

-- name: parked
-- Read a parked set behind a key. Index: the primary key of parked, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, run.lane, user, session, priority, ties
FROM parked AS shelf CROSS JOIN run ON run.number = shelf.number
WHERE shelf.lane = ?1 AND gate = ?2 AND (shelf.rank, shelf.number) > (?3, ?4) ORDER BY shelf.rank, shelf.number LIMIT ?5;

-- name: first_parked
-- Read the first runs (this many, and those of the same rank) of each of these parked sets, given as [lane, gate].
-- Index: the primary key of parked.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, run.lane, user, session, priority, ties, gate
FROM json_each(?1) AS wanted
CROSS JOIN parked AS shelf ON shelf.lane = wanted.value ->> 0 AND shelf.gate = wanted.value ->> 1
    AND shelf.rank <= coalesce((
        SELECT rank FROM parked AS other WHERE other.lane = wanted.value ->> 0 AND other.gate = wanted.value ->> 1
        ORDER BY rank, number LIMIT 1 OFFSET ?2 - 1
    ), 9223372036854775807)
CROSS JOIN run ON run.number = shelf.number;

-- name: put_parked
-- Put runs into parked sets. Index: the primary key.
INSERT INTO parked (lane, gate, rank, number, kind) VALUES (?, ?, ?, ?, ?);

-- name: drop_parked
-- Delete a parked set up to a key. Index: the primary key.
DELETE FROM parked WHERE lane = ? AND gate = ? AND (rank, number) <= (?, ?);

-- name: held
-- Read the runs that a session holds back, behind a key. Index: the primary key of held, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, user, run.session, priority, ties, paused
FROM held AS shelf CROSS JOIN run ON run.number = shelf.number
WHERE shelf.session = ?1 AND (shelf.rank, shelf.number) > (?2, ?3) ORDER BY shelf.rank, shelf.number LIMIT ?4;

-- name: first_held
-- Read the first run that each of these sessions holds back. Index: the primary key of held.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, user, run.session, priority, ties, paused
FROM json_each(?) AS wanted
CROSS JOIN held AS shelf ON shelf.session = wanted.value
    AND shelf.rank = (SELECT min(rank) FROM held WHERE held.session = wanted.value)
CROSS JOIN run ON run.number = shelf.number;

-- name: put_held
-- Put runs behind their sessions. Index: the primary key.
INSERT INTO held (session, rank, number, kind, paused) VALUES (?, ?, ?, ?, ?);

-- name: drop_held
-- Delete the runs that a session holds back, up to a key. Index: the primary key.
DELETE FROM held WHERE session = ? AND (rank, number) <= (?, ?);

-- name: first_due
-- Read the first future runs, due or not. Index: the primary key of due, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, user, run.session, priority, ties, 0, arrival
FROM due AS shelf CROSS JOIN run ON run.number = shelf.number
WHERE shelf.rank > -4611686018427387904 ORDER BY shelf.rank, shelf.number LIMIT ?1;

-- name: due
-- Read the runs that are due by an instant. Index: the primary key of due, then that of run.
SELECT shelf.kind, shelf.rank, shelf.number, run.id, run.task, args, lane, user, run.session, priority, ties, 0, arrival
FROM due AS shelf CROSS JOIN run ON run.number = shelf.number
WHERE shelf.rank <= ?1 ORDER BY shelf.rank, shelf.number LIMIT ?2;

-- name: due_after
-- Return when the first future run behind an instant is due. Index: the primary key.
SELECT min(rank) FROM due WHERE rank > ?1;

-- name: put_due
-- Put runs onto the future shelf. Index: the primary key.
INSERT INTO due (rank, number, kind, session) VALUES (?, ?, ?, ?);

-- name: drop_due
-- Delete the future runs up to a key. Index: the primary key.
DELETE FROM due WHERE (rank, number) <= (?, ?);

-- name: asides
-- Count the runs set aside, per lane and task. It reads the table, a row per lane and task.
SELECT lane, task, runs FROM aside;

-- name: set_aside
-- Write the number of runs set aside of a task in a lane. Index: the primary key.
INSERT INTO aside (lane, task, runs) VALUES (?, ?, ?) ON CONFLICT (lane, task) DO UPDATE SET runs = excluded.runs;

-- name: drop_aside
-- Delete a number that is zero. Index: the primary key.
DELETE FROM aside WHERE lane = ? AND task = ?;

-- name: tried
-- Read the attempts of these runs, and what those attempts left. Index: the unique number of outcome, the primary keys,
-- and the unique (number, kind, name) of memo.
SELECT outcome.number, attempt, crashes, fence, events, checkpoint.state, prepared.args,
    (SELECT count(*) FROM memo WHERE memo.number = outcome.number)
FROM json_each(?) AS wanted CROSS JOIN outcome ON outcome.number = wanted.value
LEFT JOIN checkpoint ON checkpoint.number = outcome.number
LEFT JOIN prepared ON prepared.number = outcome.number;

-- name: find
-- Find where a pending run is. Looked up first: its due time, and the key at its acceptance, which is right for most;
-- then the only key it can have while its session is paused; then the runs that its session holds back, its parked sets
-- and, from the front, its lane's ready runs (a run that came back is near the front). The query stops at the first
-- branch that finds the run. Index: the primary keys, whole or by their first columns.
SELECT 'due', '', rank, kind FROM due WHERE rank = ?7 AND number = ?1
UNION ALL SELECT 'ready', '', rank, kind FROM ready WHERE lane = ?2 AND rank = ?6 AND number = ?1
UNION ALL SELECT 'held', '', rank, kind FROM held WHERE session = ?5 AND rank = ?6 AND number = ?1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked
WHERE lane = ?2 AND gate IN ('user:' || ?3, 'task:' || ?4, 'breaker:' || ?4, 'breaker:' || ?4 || char(10) || coalesce(?3, ''))
    AND rank = ?6 AND number = ?1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked
WHERE lane = ?2 AND gate = 'session:' || ?5 AND rank = 0 AND number = ?1
UNION ALL SELECT 'held', '', rank, kind FROM held WHERE session = ?5 AND number = ?1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked WHERE lane = ?2 AND gate = 'user:' || ?3 AND number = ?1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked WHERE lane = ?2 AND gate = 'task:' || ?4 AND number = ?1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked WHERE lane = ?2 AND gate = 'breaker:' || ?4 AND number = ?1
UNION ALL SELECT 'parked', gate, rank, kind FROM parked
WHERE lane = ?2 AND gate = 'breaker:' || ?4 || char(10) || coalesce(?3, '') AND number = ?1
UNION ALL SELECT 'ready', '', rank, kind FROM ready WHERE lane = ?2 AND number = ?1
LIMIT 1;

-- name: remove_ready
-- Delete one ready run. Index: the primary key.
DELETE FROM ready WHERE lane = ? AND rank = ? AND number = ?;

-- name: remove_parked
-- Delete one parked run. Index: the primary key.
DELETE FROM parked WHERE lane = ? AND gate = ? AND rank = ? AND number = ?;

-- name: remove_held
-- Delete one held run. Index: the primary key.
DELETE FROM held WHERE session = ? AND rank = ? AND number = ?;

-- name: remove_due
-- Delete one future run. Index: the primary key.
DELETE FROM due WHERE rank = ? AND number = ?;

-- name: bodies
-- Read the id and arguments of these runs, and what their attempts left. Index: the primary keys, and the unique
-- (number, kind, name) of memo.
SELECT run.number, run.id, run.args, checkpoint.state, prepared.args,
    (SELECT count(*) FROM memo WHERE memo.number = run.number)
FROM json_each(?) AS wanted CROSS JOIN run ON run.number = wanted.value
LEFT JOIN checkpoint ON checkpoint.number = run.number
LEFT JOIN prepared ON prepared.number = run.number;

-- name: held_run
-- Return the place at which a session holds a run. Index: the primary key, by its first column.
SELECT rank FROM held WHERE session = ? AND number = ?;

-- name: pause_held
-- Mark a held run as paused, or not. Index: the primary key.
UPDATE held SET paused = ? WHERE session = ? AND rank = ? AND number = ?;
