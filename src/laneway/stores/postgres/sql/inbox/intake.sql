-- Submissions that other programs wrote inside their own transactions.

-- name: posted
-- Read the submissions in the order in which they were posted. Index: inbox_posted.
SELECT id, at, body FROM inbox WHERE NOT aside ORDER BY nth LIMIT $1;

-- name: taken
-- Delete submissions that were accepted. Index: the primary key.
DELETE FROM inbox WHERE id = ANY (ARRAY(SELECT json_array_elements_text($1::json)));

-- name: set_aside
-- Mark submissions that cannot be read, so that they stay for people to look at. Index: the primary key.
UPDATE inbox SET aside = true WHERE id = ANY (ARRAY(SELECT json_array_elements_text($1::json)));
