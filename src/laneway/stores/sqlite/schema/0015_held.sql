-- What a session holds back is a table again, and says nothing that does not hold.

-- Rows at a place that the session had passed were of runs that it has let in.
DROP VIEW held;
DELETE FROM held_row
WHERE EXISTS (SELECT 1 FROM session WHERE name = held_row.session AND held_row.rank BETWEEN 1 AND passed);
ALTER TABLE held_row RENAME TO held;
ALTER TABLE session DROP COLUMN passed;
