-- Resting workers lend their next step: `room` is the room of one that does, and `lent` is 1 if its last step was done
-- so, before the worker has asked for it.
ALTER TABLE worker ADD COLUMN room bigint;
ALTER TABLE worker ADD COLUMN lent int NOT NULL DEFAULT 0;
