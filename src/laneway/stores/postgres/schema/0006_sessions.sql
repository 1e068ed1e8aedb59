-- Rows of sessions and held runs say only what is true now.

-- Rows at a place that the session has passed belong to runs that it has admitted.
DROP VIEW held;
DELETE FROM held_row USING session
WHERE session.name = held_row.session AND held_row.rank BETWEEN 1 AND session.passed;
ALTER TABLE held_row RENAME TO held;
ALTER INDEX held_row_pkey RENAME TO held_pkey;
ALTER TABLE session DROP COLUMN passed;

-- A session's row called a run unstarted even after it was leased.
UPDATE session SET unstarted_then = 0
WHERE EXISTS (SELECT 1 FROM lease WHERE lease.number = unstarted_then)
    OR EXISTS (SELECT 1 FROM outcome WHERE outcome.number = unstarted_then AND fence > 0);
ALTER TABLE session RENAME COLUMN unstarted_then TO unstarted;
