-- Steps that write fewer rows.

-- What a session held back and let in is deleted sixteen at a time: until then `passed` is the place up to which all
-- are gone, those with a place of 1 or more. `held` is what is still held: whoever asks, asks it. A process of an older
-- laneway, which may still run, fails when it writes it: PostgreSQL writes no view of two tables.
ALTER TABLE held RENAME TO held_row;
ALTER INDEX held_pkey RENAME TO held_row_pkey;
ALTER TABLE session ADD COLUMN passed bigint NOT NULL DEFAULT 0;
CREATE VIEW held AS
SELECT held_row.rank, held_row.number, held_row.kind, held_row.paused, held_row.session
FROM held_row LEFT JOIN session ON session.name = held_row.session
WHERE session.name IS NULL OR held_row.rank < 1 OR held_row.rank > session.passed;

-- Runs that have succeeded are found in the order of their numbers by the unique number: there is little else among
-- them.
DROP INDEX outcome_ended;
CREATE INDEX outcome_unlucky ON outcome (state, number) WHERE ended_at IS NOT NULL AND state <> 'succeeded';
