-- The writes of `counts.sql`, under the same names, for rows that are known to be there: an upsert would look for the
-- row twice.

-- name: set_turn
-- Update a user's turn. Index: the primary key.
UPDATE turn SET last = newest.last, waiting = newest.waiting, writes = writes + 1
FROM (
    SELECT given.last, given.waiting, found.place
    FROM (VALUES ($1::text, $2::text, $3::int, $4::bigint, $5::int)) AS given(lane, "user", priority, last, waiting)
    CROSS JOIN LATERAL (
        SELECT ctid AS place FROM turn
        WHERE turn.lane = given.lane AND turn."user" = given."user" AND turn.priority = given.priority
        ORDER BY era DESC LIMIT 1
    ) AS found
) AS newest
WHERE turn.ctid = newest.place;

-- name: set_seat
-- Update a user's seat. Index: the primary key.
UPDATE seat SET active = newest.active, parked = newest.parked, out = newest.out, writes = writes + 1
FROM (
    SELECT given.active, given.parked, given.out, found.place
    FROM (VALUES ($1::text, $2::text, $3::int, $4::int, $5::int)) AS given(lane, "user", active, parked, out)
    CROSS JOIN LATERAL (
        SELECT ctid AS place FROM seat WHERE seat.lane = given.lane AND seat."user" = given."user"
        ORDER BY era DESC LIMIT 1
    ) AS found
) AS newest
WHERE seat.ctid = newest.place;

-- name: set_session
-- Update a session. Index: the primary key.
UPDATE session SET admitted = newest.admitted, unstarted = newest.unstarted, held = newest.held,
    back = newest.back, joined = newest.joined, front = newest.front, rest = newest.rest
FROM (
    SELECT given.*, found.place
    FROM (
        VALUES ($1::text, $2::text, $3::bigint, $4::int, $5::bigint, $6::bigint, $7::bigint, $8::text)
    ) AS given(name, admitted, unstarted, held, back, joined, front, rest)
    CROSS JOIN LATERAL (SELECT ctid AS place FROM session WHERE session.name = given.name OFFSET 0) AS found
) AS newest
WHERE session.ctid = newest.place;
