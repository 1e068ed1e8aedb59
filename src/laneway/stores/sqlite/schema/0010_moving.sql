-- The store's part in a move, if it has or had one: `core.transfer.move_state` says what a phase means. `place` is the other
-- store's address, without a password; `mark` is how far its pieces have come, as JSON.
CREATE TABLE moving (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    phase TEXT NOT NULL,
    move TEXT NOT NULL,
    place TEXT NOT NULL,
    mark TEXT
) STRICT;
