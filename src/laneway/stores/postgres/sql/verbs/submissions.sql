-- Accepting runs.

-- name: look
-- Read all that a uniform batch needs, a row per priority of its lane: the last acceptance number, when the next future
-- run is due, the earliest deadline of a question, whether a worker is idle; the lane's limit and how many of its runs
-- are active and pending, the turn of runs without a user; and the virtual time of each priority. No row if there is no
-- such lane, if it has a bound, if the task is disabled, or if the store has a part in a move. $1 is the lane, $2 the
-- task. Index: primary keys, wait_until, worker_idle.
WITH RECURSIVE come(priority, v, ready) AS (
    (SELECT priority, v, ready FROM pace WHERE lane = $1 ORDER BY priority DESC, era DESC LIMIT 1)
    UNION ALL
    SELECT next.priority, next.v, next.ready FROM come CROSS JOIN LATERAL (
        SELECT priority, v, ready FROM pace WHERE lane = $1 AND priority < come.priority
        ORDER BY priority DESC, era DESC LIMIT 1
    ) AS next
)
SELECT greatest(accepted, (SELECT max(number) FROM run)), (SELECT min(rank) FROM due),
    (SELECT min(until) FROM wait WHERE until IS NOT NULL),
    EXISTS (SELECT 1 FROM worker WHERE idle <> 0),
    "limit", active, pending, last, waiting, come.priority, come.v, come.ready
FROM counter CROSS JOIN (SELECT * FROM lane WHERE name = $1 ORDER BY era DESC LIMIT 1) AS lane
LEFT JOIN come ON true
LEFT JOIN (
    SELECT last, waiting FROM turn WHERE lane = $1 AND "user" = '' AND priority = 0 ORDER BY era DESC LIMIT 1
) AS turn ON true
WHERE one = 1 AND max_pending IS NULL AND NOT EXISTS (SELECT 1 FROM disabled WHERE task = $2)
    AND NOT EXISTS (SELECT 1 FROM moving WHERE one = 1);

-- name: undo
-- Delete the runs from an acceptance number on. Index: the primary key.
DELETE FROM run WHERE number >= $1;

-- name: insert
-- Write a run. Index: the unique id finds out a run that was accepted before.
INSERT INTO run (number, id, task, lane, "user", session, priority, arrival, accepted_at, due_at, rank, args, ties)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::int, $8::text, $9::bigint, $10::bigint,
    $11::bigint, $12::text, $13::text)
ON CONFLICT (id) DO NOTHING;

-- name: insert_uniform
-- Insert the runs of a uniform batch, of these ids ($6) and arguments ($7): numbers count up from $1, ranks from $2. A
-- run whose id is known is left out: then fewer rows are inserted than asked. Index: the unique id.
INSERT INTO run (number, id, task, lane, priority, accepted_at, due_at, rank, args)
SELECT $1::bigint + nth - 1, own.id, $3::text, $4::text, 0, $5::bigint, $5::bigint, $2::bigint + nth - 1, own.args
FROM unnest($6::text[], $7::text[]) WITH ORDINALITY AS own(id, args, nth)
ON CONFLICT (id) DO NOTHING;

-- name: ready_uniform
-- Put the runs of a uniform batch, from an acceptance number on, into their lane's ready order. Index: the primary
-- keys.
WITH put AS (
    INSERT INTO ready (lane, rank, number, kind) SELECT lane, rank, number, 0 FROM run WHERE number >= $1
    RETURNING lane, rank
)
UPDATE lane SET floor = lowest.rank FROM (SELECT lane, min(rank) AS rank FROM put GROUP BY lane) AS lowest
WHERE name = lowest.lane AND floor > lowest.rank
    AND era = (SELECT era FROM lane AS newest WHERE newest.name = lowest.lane ORDER BY era DESC LIMIT 1);

-- name: set_retry
-- Write which run this one tries again. Few runs do, so it is no column of the statements above. Index: the primary
-- key.
UPDATE run SET retry_of = $1 WHERE number = $2;
