-- Accepting runs.

-- name: undo
-- Delete the runs from an acceptance number on. Index: the primary key.
DELETE FROM run WHERE number >= $1;

-- name: insert
-- Write a run. Index: the unique id finds out a run that was accepted before.
INSERT INTO run (number, id, task, lane, "user", session, priority, arrival, accepted_at, due_at, rank, args, ties)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::int, $8::text, $9::bigint, $10::bigint,
    $11::bigint, $12::text, $13::text)
ON CONFLICT (id) DO NOTHING;

-- name: insert_alike
-- Insert runs that are alike but for ids ($8) and arguments ($9): numbers count up from $1, ranks from $2. One whose id
-- is known is left out, which the number of rows tells. Index: the unique id.
INSERT INTO run (number, id, task, lane, "user", priority, accepted_at, due_at, rank, args)
SELECT $1::bigint + nth - 1, own.id, $3::text, $4::text, $5::text, $6::int, $7::bigint, $7::bigint,
    $2::bigint + nth - 1, own.args
FROM unnest($8::text[], $9::text[]) WITH ORDINALITY AS own(id, args, nth)
ON CONFLICT (id) DO NOTHING;

-- name: ready_alike
-- Put $4 such runs into the ready order of a lane. Index: the primary key.
WITH put AS (
    INSERT INTO ready (lane, rank, number, kind)
    SELECT $3::text, $2::bigint + nth, $1::bigint + nth, 0 FROM generate_series(0, $4::bigint - 1) AS nth
    RETURNING lane, rank
)
UPDATE lane SET floor = lowest.rank FROM (SELECT lane, min(rank) AS rank FROM put GROUP BY lane) AS lowest
WHERE name = lowest.lane AND floor > lowest.rank
    AND era = (SELECT era FROM lane AS newest WHERE newest.name = lowest.lane ORDER BY era DESC LIMIT 1);

-- name: set_retry
-- Note which run one tries again; few do, so it is no column of the statements above. Index: the primary key.
UPDATE run SET retry_of = $1 WHERE number = $2;
