-- Runs that were submitted together, bound into one row.

-- `first` is the acceptance number of the first of them and `rank` its place; those of the others follow one by one, and
-- so do the numbers of one sheaf and the next. `ids` and `args` have a line each. `highest` is the greatest id of this
-- sheaf and all before it. Counts of lanes, paces and turns know of these runs; nothing else does: whoever wants to read
-- or write anything else unbinds them first.
CREATE TABLE sheaf (
    first INTEGER PRIMARY KEY,
    runs INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    task TEXT NOT NULL,
    lane TEXT NOT NULL,
    user TEXT,
    priority INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL,
    highest TEXT NOT NULL,
    ids TEXT NOT NULL,
    args TEXT NOT NULL
) STRICT;
