-- Ended runs by age, so that pruning finds the oldest of a state without reading the young.
CREATE INDEX outcome_age ON outcome (state, ended_at, number) WHERE ended_at IS NOT NULL;
