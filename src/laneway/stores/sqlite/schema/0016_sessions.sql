-- What is stored of a session, and of what it holds back, says nothing that does not hold.

-- Rows at a place that the session had passed were of runs that it has let in.
DROP VIEW held;
DELETE FROM held_row
WHERE EXISTS (SELECT 1 FROM session WHERE name = held_row.session AND held_row.rank BETWEEN 1 AND passed);
ALTER TABLE held_row RENAME TO held;
ALTER TABLE session DROP COLUMN passed;

-- A session's row said that a run has not started also after it was leased.
UPDATE session SET unstarted_then = 0
WHERE EXISTS (SELECT 1 FROM lease WHERE lease.number = unstarted_then)
    OR EXISTS (SELECT 1 FROM outcome WHERE outcome.number = unstarted_then AND fence > 0);
ALTER TABLE session RENAME COLUMN unstarted_then TO unstarted;
