-- Submissions that came with others' transactions.

-- name: posted
-- Read what has come, in the order it was posted. Index: inbox_posted.
SELECT id, at, body FROM inbox WHERE NOT aside ORDER BY nth LIMIT $1;

-- name: taken
-- Delete what was taken in. Index: the primary key.
DELETE FROM inbox WHERE id = ANY (ARRAY(SELECT json_array_elements_text($1::json)));

-- name: set_aside
-- Leave alone what cannot be read, for people to look at. Index: the primary key.
UPDATE inbox SET aside = true WHERE id = ANY (ARRAY(SELECT json_array_elements_text($1::json)));
