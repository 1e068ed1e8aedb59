-- Steps that write fewer rows.

-- Held runs that a session has admitted are deleted sixteen at a time: until then `passed` is the place up to which all
-- runs (with a place of 1 or more) are admitted. The view `held` shows the runs that are still held; all queries read
-- it. A process of an older laneway that still runs fails when it writes `held`: PostgreSQL cannot write a view of two
-- tables.
ALTER TABLE held RENAME TO held_row;
ALTER INDEX held_pkey RENAME TO held_row_pkey;
ALTER TABLE session ADD COLUMN passed bigint NOT NULL DEFAULT 0;
CREATE VIEW held AS
SELECT held_row.rank, held_row.number, held_row.kind, held_row.paused, held_row.session
FROM held_row LEFT JOIN session ON session.name = held_row.session
WHERE session.name IS NULL OR held_row.rank < 1 OR held_row.rank > session.passed;

-- Runs that have succeeded are found by the primary key, in the order of their numbers: few others are among them.
DROP INDEX outcome_ended;
CREATE INDEX outcome_unlucky ON outcome (state, number) WHERE ended_at IS NOT NULL AND state <> 'succeeded';
