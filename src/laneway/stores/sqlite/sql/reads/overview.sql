-- How lanes, users and tasks stand, and what a run waits for. People run these queries; workers never do.

-- name: lanes
-- Read all lanes by name. It reads the table and, by its primary key, pace.
SELECT name, "limit", per_user, worker_limit, max_pending, when_full, active,
    (SELECT coalesce(sum(ready), 0) FROM pace WHERE pace.lane = name), pending, paused, ruled IS NOT NULL, declared
FROM lane ORDER BY name;

-- name: users
-- Read users in lanes after a key: users that have runs there or an operator setting. A user who is only paused is
-- returned without a lane. Index: the primary keys; it reads what there is of users between :first and :last.
WITH found (user, lane) AS (
    SELECT seat.user, seat.lane FROM lane CROSS JOIN seat ON seat.lane = name AND seat.user BETWEEN :first AND :last
    UNION SELECT turn.user, turn.lane FROM lane CROSS JOIN turn ON turn.lane = name AND turn.user BETWEEN :first AND :last
    WHERE turn.user <> ''
    UNION SELECT user, lane FROM cap WHERE user BETWEEN :first AND :last
    UNION SELECT name, '' FROM paused WHERE what = 'user' AND name BETWEEN :first AND :last
), placed AS (SELECT user, lane, count(*) OVER (PARTITION BY user) AS places FROM found)
SELECT placed.user, placed.lane, coalesce(active, 0),
    (SELECT coalesce(sum(waiting), 0) FROM turn WHERE turn.lane = placed.lane AND turn.user = placed.user), cap,
    EXISTS (SELECT 1 FROM paused WHERE what = 'user' AND name = placed.user)
FROM placed
LEFT JOIN seat ON seat.lane = placed.lane AND seat.user = placed.user
LEFT JOIN cap ON cap.lane = placed.lane AND cap.user = placed.user
WHERE (placed.user, placed.lane) > (:after_user, :after_lane) AND (placed.lane <> '' OR places = 1)
ORDER BY placed.user, placed.lane LIMIT :limit;

-- name: asides
-- Count the runs set aside, by task. It reads the table, a row per lane and task.
SELECT task, sum(runs) FROM aside GROUP BY task;

-- name: present
-- Read the incarnations that have not left. It reads the table.
SELECT id, incarnation, lease, renewed_at, short FROM worker WHERE NOT "left" ORDER BY number;

-- name: depths
-- Count the pending runs by where they wait. It reads the shelves.
SELECT 'ready', count(*) FROM ready UNION ALL SELECT 'parked', count(*) FROM parked
UNION ALL SELECT 'held', count(*) FROM held WHERE NOT paused UNION ALL SELECT 'due', count(*) FROM due;

-- name: waiting
-- Read a run that may be waiting: number, state, due_at, task, lane, user, the session in which it has a place, fence,
-- its key at acceptance, what it waits for, and whether it is on its last chance (that is its reason then). Index: the
-- unique id, then the primary keys.
SELECT number, state, record.due_at, record.task, record.lane, record.user, run.session, fence, rank, wait,
    crashes > 0 AND reason IS ?2
FROM record JOIN run USING (number) WHERE record.id = ?1;

-- name: active
-- Return the running runs of a lane and their users, oldest first. It reads all leases.
SELECT id, user FROM lease CROSS JOIN run ON run.number = lease.number WHERE run.lane = ? ORDER BY lease.number;

-- name: executed
-- Count the runs of a lane that each incarnation executes. It reads all leases.
SELECT holder, count(*) FROM lease CROSS JOIN run ON run.number = lease.number
WHERE died IS NULL AND run.lane = ? GROUP BY holder;

-- name: last_chances
-- Return the runs on their last chance that incarnations execute, oldest first. It reads all leases.
SELECT holder, run.id FROM lease
CROSS JOIN outcome ON outcome.number = lease.number CROSS JOIN run ON run.number = lease.number
WHERE died IS NULL AND crashes > 0 AND reason = ? ORDER BY lease.number;

-- name: held
-- Return the numbers of the runs that a session holds back, in order. Index: the primary key.
SELECT number FROM held WHERE session = ? ORDER BY rank, number;

-- name: ids
-- Return the ids of these runs, in this order. Index: the primary key.
SELECT run.id FROM json_each(?) AS wanted CROSS JOIN run ON run.number = wanted.value ORDER BY wanted.key;

-- name: ahead
-- Count the runs of a lane's ready order before a key. Index: the primary key; it reads that part of the shelf.
SELECT count(*) FROM ready WHERE lane = ? AND (rank, number) < (?, ?);

-- name: user
-- Read the cap of a user in a lane, and whether the user is paused. Index: the primary keys.
SELECT (SELECT cap FROM cap WHERE user = ?1 AND lane = ?2),
    EXISTS (SELECT 1 FROM paused WHERE what = 'user' AND name = ?1);
