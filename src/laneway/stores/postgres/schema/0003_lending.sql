-- An idle worker may have its next step made by others: `room` is the room of such a worker, and `lent` is 1 if its
-- last step was made so, before the worker asked for it.
ALTER TABLE worker ADD COLUMN room bigint;
ALTER TABLE worker ADD COLUMN lent int NOT NULL DEFAULT 0;
