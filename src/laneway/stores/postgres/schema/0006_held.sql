-- What a session holds back is a table again, and says nothing that does not hold.

-- Rows at a place that the session had passed were of runs that it has let in.
DROP VIEW held;
DELETE FROM held_row USING session
WHERE session.name = held_row.session AND held_row.rank BETWEEN 1 AND session.passed;
ALTER TABLE held_row RENAME TO held;
ALTER INDEX held_row_pkey RENAME TO held_pkey;
ALTER TABLE session DROP COLUMN passed;
