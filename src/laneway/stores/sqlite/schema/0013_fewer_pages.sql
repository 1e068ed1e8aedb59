-- Steps that write fewer pages of the file.

-- What a session held back and let in is deleted sixteen at a time: until then `passed` is the place up to which all
-- are gone, those with a place of 1 or more. `held` is what is still held: whoever asks, asks it. A process of an older
-- laneway, which may still run, fails when it writes it.
ALTER TABLE held RENAME TO held_row;
ALTER TABLE session ADD COLUMN passed INTEGER NOT NULL DEFAULT 0;
CREATE VIEW held AS
SELECT session, rank, number, kind, paused FROM held_row
WHERE NOT EXISTS (SELECT 1 FROM session WHERE name = held_row.session AND held_row.rank BETWEEN 1 AND passed);

-- Runs that have succeeded are found in the order of their numbers by the unique number: there is little else among
-- them.
DROP INDEX outcome_ended;
CREATE INDEX outcome_unlucky ON outcome (state, number) WHERE ended_at IS NOT NULL AND state <> 'succeeded';
