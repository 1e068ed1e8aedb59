-- Runs with deltas in their logs, which are trimmed some time after the run's end. `ended_at` is copied from the outcome by
-- whoever trims, so that nobody who ends a run has to think of it.
CREATE TABLE transient (
    number INTEGER PRIMARY KEY,
    ended_at INTEGER
) STRICT;
CREATE INDEX transient_open ON transient (number) WHERE ended_at IS NULL;
CREATE INDEX transient_ended ON transient (ended_at, number) WHERE ended_at IS NOT NULL;
