-- The first layout. Instants are microseconds since 1970; JSON is text.
--
-- Two kinds of tables. `run`, `outcome` and `event` grow with history and are written at their ends, so that a batch
-- dirties few pages, in whatever order runs end. The others hold only what is pending or running and move all the time; they are narrow.

-- What was submitted. A row is written once. `rank` is the run's key on the shelf it was first put on: a hint for whoever
-- looks for it, right for most runs, and not kept up when the run moves. `args` is last: a long one does not hide the rest.
CREATE TABLE run (
    number INTEGER PRIMARY KEY,  -- acceptance
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    lane TEXT NOT NULL,
    user TEXT,
    session TEXT,
    priority INTEGER NOT NULL,
    max_concurrent INTEGER,
    accepted_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    args TEXT NOT NULL
) STRICT;

-- What the newest attempt that ended came to; absent until there is one. An INSERT here costs half of what an UPDATE of
-- `run` did, whose rows would grow and split their pages. `log` is the last chunk of events of a run that has ended.
CREATE TABLE outcome (
    settled INTEGER PRIMARY KEY, -- the order of settling
    number INTEGER NOT NULL UNIQUE,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    events INTEGER NOT NULL,     -- how many are written
    due_at INTEGER,
    started_at INTEGER,
    ended_at INTEGER,
    reason TEXT,
    error TEXT,
    result TEXT,
    log TEXT
) STRICT;
CREATE INDEX outcome_ended ON outcome (state, number) WHERE ended_at IS NOT NULL;

-- A row is a chunk: a JSON array of [kind, attempt, at, data]; `seq` is the number of its first event.
CREATE TABLE event (
    number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (number, seq)
) STRICT;

-- The shelves of `core.queue.shelves`. `kind` is how the run came there.
CREATE TABLE ready (
    lane TEXT NOT NULL,
    rank INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    PRIMARY KEY (lane, rank, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE parked (
    lane TEXT NOT NULL,
    gate TEXT NOT NULL,
    rank INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    PRIMARY KEY (lane, gate, rank, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE held (
    session TEXT NOT NULL,
    rank INTEGER NOT NULL,       -- the order of joining
    number INTEGER NOT NULL,
    PRIMARY KEY (session, rank, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE due (
    rank INTEGER NOT NULL,       -- due_at
    number INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    PRIMARY KEY (rank, number)
) STRICT, WITHOUT ROWID;

-- How many runs are set aside per lane and task, so that a claim need not look for the sets that exist.
CREATE TABLE aside (
    lane TEXT NOT NULL,
    task TEXT NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (lane, task)
) STRICT, WITHOUT ROWID;

-- While a row stands here, the run is running. `call` and `nth`: the step it was claimed in, so that the step can be
-- answered again. `events` counts what is written; the `started` event of this lease is `noted` with the next chunk.
CREATE TABLE lease (
    number INTEGER PRIMARY KEY,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    holder TEXT NOT NULL,        -- the incarnation that may settle it
    died TEXT,                   -- the one that executed it, if the lease is lapsed
    call INTEGER NOT NULL,
    nth INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    events INTEGER NOT NULL,
    noted INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The counts of `core.queue.turns` and `core.queue.sessions`. A row that counts nothing is deleted. The user '' means
-- no user.
CREATE TABLE lane (
    name TEXT PRIMARY KEY,
    "limit" INTEGER NOT NULL,
    per_user INTEGER,
    active INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE pace (
    lane TEXT NOT NULL,
    priority INTEGER NOT NULL,
    v INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    PRIMARY KEY (lane, priority)
) STRICT, WITHOUT ROWID;
CREATE INDEX pace_ready ON pace (lane) WHERE ready > 0;

CREATE TABLE turn (
    lane TEXT NOT NULL,
    user TEXT NOT NULL,
    priority INTEGER NOT NULL,
    last INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    PRIMARY KEY (lane, user, priority)
) STRICT, WITHOUT ROWID;

CREATE TABLE seat (
    lane TEXT NOT NULL,
    user TEXT NOT NULL,
    active INTEGER NOT NULL,
    parked INTEGER NOT NULL,
    out INTEGER NOT NULL,
    PRIMARY KEY (lane, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    name TEXT PRIMARY KEY,
    max_concurrent INTEGER NOT NULL,
    admitted INTEGER NOT NULL,
    unstarted INTEGER NOT NULL,
    held INTEGER NOT NULL,
    joined INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Incarnations, oldest first. `refused`, `due_in`, `more` and `answered_at` are the answer to its step number `call`;
-- `told` is the next due time it knew of then.
CREATE TABLE worker (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    incarnation TEXT NOT NULL,
    lease INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    idle INTEGER NOT NULL DEFAULT 0,
    "left" INTEGER NOT NULL DEFAULT 0,
    call INTEGER NOT NULL DEFAULT 0,
    refused TEXT NOT NULL DEFAULT '[]',
    due_in INTEGER,
    more INTEGER NOT NULL DEFAULT 0,
    answered_at INTEGER NOT NULL DEFAULT 0,
    told INTEGER,
    socket TEXT                  -- where a wake-up reaches it
) STRICT;
CREATE INDEX worker_idle ON worker (number) WHERE idle;

CREATE TABLE heartbeat (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    renewed_at INTEGER NOT NULL,
    grace_until INTEGER NOT NULL
) STRICT;
INSERT INTO heartbeat VALUES (1, 0, 0);

-- An acceptance number up to which all were given: whoever deletes the newest run writes its number here before, so that
-- none is given twice.
CREATE TABLE counter (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    accepted INTEGER NOT NULL
) STRICT;
INSERT INTO counter VALUES (1, 0);

-- A run as people see it.
CREATE VIEW record AS
SELECT
    run.number, run.id, run.task, run.args, run.lane, run.user, run.session, run.priority,
    iif(lease.number IS NULL, coalesce(outcome.state, 'pending'), 'running') AS state,
    coalesce(lease.attempt, outcome.attempt, 1) AS attempt,
    coalesce(lease.fence, outcome.fence, 0) AS fence,
    coalesce(outcome.crashes, 0) AS crashes,
    run.accepted_at,
    coalesce(outcome.due_at, run.due_at) AS due_at,
    coalesce(lease.started_at, outcome.started_at) AS started_at,
    outcome.ended_at, outcome.result, outcome.error, outcome.reason,
    coalesce(lease.died, lease.holder) AS worker
FROM run
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number;
