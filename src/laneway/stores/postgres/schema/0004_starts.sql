-- A start is no longer written to the row of the run's session: such a run has a lease, or had one. So the column names
-- the run that had not started when the row was written. The new name protects the column from processes of an older
-- laneway that still run and would misread it.
ALTER TABLE session RENAME COLUMN unstarted TO unstarted_then;
