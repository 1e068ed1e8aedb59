-- What operators set, and what became of submissions and runs that were not simply accepted.

-- `pending` counts all that wait, for whatever reason. `declared` and `ruled` are what code and what an operator say of
-- the lane, as JSON; the plain columns are what holds.
ALTER TABLE lane ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN worker_limit INTEGER;
ALTER TABLE lane ADD COLUMN max_pending INTEGER;
ALTER TABLE lane ADD COLUMN when_full TEXT NOT NULL DEFAULT 'wait';
ALTER TABLE lane ADD COLUMN declared TEXT;
ALTER TABLE lane ADD COLUMN ruled TEXT;

UPDATE lane SET declared = json_object('name', name, 'limit', "limit", 'per_user', per_user);
UPDATE lane SET pending = counted.runs
FROM (
    SELECT run.lane AS name, count(*) AS runs FROM (
        SELECT number FROM ready UNION ALL SELECT number FROM parked
        UNION ALL SELECT number FROM held UNION ALL SELECT number FROM due
    ) AS shelf CROSS JOIN run ON run.number = shelf.number GROUP BY run.lane
) AS counted
WHERE counted.name = lane.name;

-- Caps of users who have another than the lane's.
CREATE TABLE cap (
    user TEXT NOT NULL,
    lane TEXT NOT NULL,
    cap INTEGER NOT NULL,
    PRIMARY KEY (user, lane)
) STRICT, WITHOUT ROWID;

-- The users, sessions and tasks that are paused; `what` is one of `ports.gates.Held`.
CREATE TABLE paused (
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (what, name)
) STRICT, WITHOUT ROWID;

-- Tasks whose new runs are refused.
CREATE TABLE disabled (
    task TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- What operators set of sessions, as JSON. It is kept while they are idle.
CREATE TABLE session_rule (
    name TEXT PRIMARY KEY,
    rule TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Workers that take no runs because memory is short.
ALTER TABLE worker ADD COLUMN short INTEGER NOT NULL DEFAULT 0;

-- What was merged, steered, refused and dropped, per lane.
CREATE TABLE lane_count (
    lane TEXT NOT NULL,
    what TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (lane, what)
) STRICT, WITHOUT ROWID;
