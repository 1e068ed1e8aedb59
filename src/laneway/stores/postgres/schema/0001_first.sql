-- The first layout, in the schema that the address names. Instants are microseconds since 1970; JSON is text.
--
-- Two kinds of tables. `run`, `outcome`, `event` and what else belongs to one run grow with history; their rows are
-- written once or twice. The others hold only what is pending or running and move all the time: they are narrow, leave
-- room on their pages for the next version of a row (so that most updates touch no index), and are vacuumed after some
-- thousand changes, whatever share of them that is.
--
-- **Old snapshots.** While a long transaction runs, no row version that was deleted or updated since its begin can be
-- vacuumed. Two things keep a claim from passing all those dead versions. (1) Rows that almost every transaction writes
-- (lane, pace, turn, seat, worker) count their updates in `writes`. After every 64 updates the row gets the next `era`,
-- the last column of its key, and a lookup begins with the newest era. Apart from eras there is one row per key:
-- writers hold the lock. (2) A lane has a `floor`: no run is in its ready order at a lower rank.
--
-- Names are compared byte by byte, whatever the collation of the database, so that every store lists them in one order.

-- The program that owns the schema, and the number of its layout.
CREATE TABLE layout (
    program text PRIMARY KEY,
    version int NOT NULL
);
INSERT INTO layout VALUES ('laneway', 0);

-- Each writing transaction adds 1, under the lock: a writer that finds its own last number knows that no other wrote
-- in between.
CREATE SEQUENCE writes;

-- Processes that want a notification of new events, each until an instant unless it renews.
CREATE TABLE watcher (
    id text COLLATE "C" PRIMARY KEY,
    until bigint NOT NULL
);

-- Submissions that users wrote inside their own transactions, by `submit(..., connection=...)`. The next writer after
-- their COMMIT accepts them. `body` is the submission, as JSON.
CREATE TABLE inbox (
    id text COLLATE "C" PRIMARY KEY,
    nth bigint GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    aside boolean NOT NULL DEFAULT false,  -- it cannot be read
    body text NOT NULL
);
CREATE INDEX inbox_posted ON inbox (nth) WHERE NOT aside;

-- Runs as they were submitted. `rank` is the run's key on the first shelf it was put on: a hint for lookups that is
-- right for most runs, and not updated when the run moves.
CREATE TABLE run (
    number bigint PRIMARY KEY,   -- acceptance
    accepted_at bigint NOT NULL,
    due_at bigint NOT NULL,
    rank bigint NOT NULL,
    priority int NOT NULL,
    id text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    "user" text COLLATE "C",
    session text COLLATE "C",
    retry_of text COLLATE "C",
    arrival text,                -- the session intent of a run that joins later, as JSON
    ties text,                   -- its links to other runs, as JSON
    args text NOT NULL
);
CREATE UNIQUE INDEX run_id ON run (id);

-- How the newest ended attempt ended; absent before the first. `log` is the last chunk of events of an ended run.
CREATE TABLE outcome (
    number bigint PRIMARY KEY,
    due_at bigint,
    started_at bigint,
    ended_at bigint,
    attempt int NOT NULL,
    crashes int NOT NULL,
    fence int NOT NULL,
    events int NOT NULL,         -- how many are written
    state text COLLATE "C" NOT NULL,
    reason text,
    error text,
    result text,
    log text
);
CREATE INDEX outcome_ended ON outcome (state, number) WHERE ended_at IS NOT NULL;
-- Ended runs by age, so that pruning finds the oldest of a state without reading younger ones.
CREATE INDEX outcome_age ON outcome (state, ended_at, number) WHERE ended_at IS NOT NULL;
-- Paused and waiting runs are on no shelf: this index finds them.
CREATE INDEX outcome_kept ON outcome (state, number) WHERE ended_at IS NULL AND state <> 'pending';
-- Runs that were paused and resumed before they were ever started: their logs do not begin with `started`.
CREATE INDEX outcome_resumed ON outcome (fence) WHERE fence = 0 AND state = 'pending';

-- A row is a chunk: a JSON array of [kind, attempt, at, data]; `seq` is the number of its first event.
CREATE TABLE event (
    number bigint NOT NULL,
    seq int NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (number, seq)
);

-- The shelves of `core.queue.shelves`. `kind` is how the run came there.
CREATE TABLE ready (
    rank bigint NOT NULL,
    number bigint NOT NULL,
    kind int NOT NULL,
    lane text COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, rank, number)
);

CREATE TABLE parked (
    rank bigint NOT NULL,
    number bigint NOT NULL,
    kind int NOT NULL,
    lane text COLLATE "C" NOT NULL,
    gate text COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, gate, rank, number)
);

-- `paused` is set for a run that is paused where it is held.
CREATE TABLE held (
    rank bigint NOT NULL,        -- the order of joining
    number bigint NOT NULL,
    kind int NOT NULL,
    paused int NOT NULL,
    session text COLLATE "C" NOT NULL,
    PRIMARY KEY (session, rank, number)
);

CREATE TABLE due (
    rank bigint NOT NULL,        -- due_at
    number bigint NOT NULL,
    kind int NOT NULL,
    session text COLLATE "C",
    PRIMARY KEY (rank, number)
);
CREATE INDEX due_session ON due (session, rank, number) WHERE session IS NOT NULL AND kind = 0;

-- How many runs are set aside per lane and task, so that a claim need not look for the sets that exist.
CREATE TABLE aside (
    lane text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    runs int NOT NULL,
    PRIMARY KEY (lane, task)
);

-- A run is running while it has a row here. `call` and `nth` name the step that claimed it, so that a repeated step
-- gets the same reply. `events` is the number of written events; `noted` is 1 once the `started` event of this lease is
-- written, which the next chunk does.
CREATE TABLE lease (
    number bigint PRIMARY KEY,
    started_at bigint NOT NULL,
    call bigint NOT NULL,
    nth int NOT NULL,
    fence int NOT NULL,
    attempt int NOT NULL,
    events int NOT NULL,
    noted int NOT NULL DEFAULT 0,
    timed_out int NOT NULL DEFAULT 0,  -- 1 once the attempt has timed out
    cleared int NOT NULL DEFAULT 0,    -- 1: unread messages are dropped when it ends
    messages int NOT NULL DEFAULT 0,   -- how many the run had taken when it was claimed
    memos int NOT NULL DEFAULT 0,
    holder text COLLATE "C" NOT NULL,  -- the incarnation that may settle it
    died text COLLATE "C",             -- the one that executed it, if the lease is lapsed
    request text                       -- 'cancel' or 'pause', once requested
);
CREATE INDEX lease_held ON lease (holder, call, nth);
CREATE INDEX lease_requested ON lease (holder) WHERE request IS NOT NULL;

-- The counts of `core.queue.turns` and `core.queue.sessions`. A row that counts nothing is deleted. The user '' means
-- no user.
-- `declared` and `ruled` are the lane as code and as an operator set it, as JSON; the other columns are what holds.
CREATE TABLE lane (
    name text COLLATE "C" NOT NULL,
    "limit" bigint NOT NULL,
    per_user bigint,
    worker_limit bigint,
    max_pending bigint,
    when_full text NOT NULL DEFAULT 'wait',
    paused int NOT NULL DEFAULT 0,
    active int NOT NULL DEFAULT 0,
    pending int NOT NULL DEFAULT 0,
    floor bigint NOT NULL DEFAULT -4611686018427387904,
    writes bigint NOT NULL DEFAULT 0,
    era bigint GENERATED ALWAYS AS (writes / 64) STORED,
    declared text,
    ruled text,
    PRIMARY KEY (name, era)
);

CREATE TABLE pace (
    lane text COLLATE "C" NOT NULL,
    priority int NOT NULL,
    v bigint NOT NULL,
    ready int NOT NULL,
    writes bigint NOT NULL DEFAULT 0,
    era bigint GENERATED ALWAYS AS (writes / 64) STORED,
    PRIMARY KEY (lane, priority, era)
);

CREATE TABLE turn (
    lane text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    priority int NOT NULL,
    last bigint NOT NULL,
    waiting int NOT NULL,
    writes bigint NOT NULL DEFAULT 0,
    era bigint GENERATED ALWAYS AS (writes / 64) STORED,
    PRIMARY KEY (lane, "user", priority, era)
);

CREATE TABLE seat (
    lane text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    active int NOT NULL,
    parked int NOT NULL,
    out int NOT NULL,
    writes bigint NOT NULL DEFAULT 0,
    era bigint GENERATED ALWAYS AS (writes / 64) STORED,
    PRIMARY KEY (lane, "user", era)
);

-- Sessions that are not idle. `admitted` is a JSON list of runs' numbers; `rest` holds the fields that few sessions
-- have, as JSON.
CREATE TABLE session (
    name text COLLATE "C" PRIMARY KEY,
    admitted text NOT NULL,
    unstarted bigint NOT NULL,
    held int NOT NULL,
    back bigint NOT NULL,
    joined bigint NOT NULL,
    front bigint NOT NULL,
    rest text
);

-- Incarnations, oldest first. `refused`, `due_in`, `more` and `answered_at` are the answer to its step number `call`;
-- `told` is the next due time that the reply had. `socket` is the channel on which its process listens for wake-ups.
CREATE TABLE worker (
    number bigint GENERATED ALWAYS AS IDENTITY,
    renewed_at bigint NOT NULL,
    lease bigint NOT NULL,
    call bigint NOT NULL DEFAULT 0,
    due_in bigint,
    answered_at bigint NOT NULL DEFAULT 0,
    told bigint,
    more int NOT NULL DEFAULT 0,
    idle int NOT NULL DEFAULT 0,
    "left" int NOT NULL DEFAULT 0,
    short int NOT NULL DEFAULT 0,
    refused text NOT NULL DEFAULT '[]',
    socket text,
    id text COLLATE "C" NOT NULL,
    incarnation text NOT NULL,
    writes bigint NOT NULL DEFAULT 0,
    era bigint GENERATED ALWAYS AS (writes / 64) STORED,
    PRIMARY KEY (id, era)
);
CREATE INDEX worker_number ON worker (number, era);
CREATE INDEX worker_idle ON worker (number) WHERE idle <> 0;

CREATE TABLE heartbeat (
    one int PRIMARY KEY CHECK (one = 1),
    renewed_at bigint NOT NULL,
    grace_until bigint NOT NULL
);

-- `accepted`: all numbers up to it were given. Pruning writes the newest number here before it deletes that run, so
-- that no number is given twice. `jobs_at` is the latest time at which a job was written: a clock that is behind it was
-- set back.
CREATE TABLE counter (
    one int PRIMARY KEY CHECK (one = 1),
    accepted bigint NOT NULL,
    jobs_at bigint NOT NULL
);

-- The last checkpoint of a run, as JSON.
CREATE TABLE checkpoint (
    number bigint PRIMARY KEY,
    state text NOT NULL
);

-- The arguments of a run as `before_start` left them, as JSON.
CREATE TABLE prepared (
    number bigint PRIMARY KEY,
    args text NOT NULL
);

-- The newest control call that changed a run, so that a repeated call gets the same reply.
CREATE TABLE control (
    number bigint PRIMARY KEY,
    call text COLLATE "C" NOT NULL
);
CREATE INDEX control_call ON control (call, number);

-- Messages: submissions that another run took; `nth` counts those of one run and kind. An id belongs to the run that
-- took it first; an unread message that becomes part of another run is `moved` there. `open` until the run has ended.
CREATE TABLE message (
    number bigint NOT NULL,      -- of the run
    nth int NOT NULL,
    priority int NOT NULL,
    moved int NOT NULL DEFAULT 0,
    open int NOT NULL DEFAULT 1,
    read int NOT NULL DEFAULT 0, -- by the newest attempt that ended
    kind text COLLATE "C" NOT NULL,  -- 'merged' or 'steered'
    id text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    "user" text COLLATE "C",
    key text COLLATE "C",
    args text NOT NULL,
    PRIMARY KEY (number, kind, nth)
);
CREATE UNIQUE INDEX message_id ON message (id) WHERE moved = 0;
CREATE INDEX message_open ON message (number, kind) WHERE open <> 0;

-- Idempotency keys. The user '' stands for none. `gone` once the run is pruned.
CREATE TABLE key (
    task text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    digest text NOT NULL,
    at bigint NOT NULL,
    gone int NOT NULL DEFAULT 0,
    PRIMARY KEY (task, "user", key)
);
CREATE INDEX key_number ON key (number);
CREATE INDEX key_gone ON key (at) WHERE gone <> 0;

-- Memos of steps, answers and calls for the next attempt, in the order in which they were written.
CREATE TABLE memo (
    id bigint GENERATED ALWAYS AS IDENTITY,
    number bigint NOT NULL,      -- of the run
    kind text COLLATE "C" NOT NULL,  -- 'step', 'answer' or 'call'
    name text COLLATE "C" NOT NULL,
    body text NOT NULL,          -- as JSON
    PRIMARY KEY (number, kind, name)
);

-- What a waiting run waits for. `until` is the last instant for an answer, for a run that asks people.
CREATE TABLE wait (
    number bigint PRIMARY KEY,
    until bigint,
    request text,
    body text NOT NULL           -- as JSON
);
CREATE INDEX wait_until ON wait (until, number) WHERE until IS NOT NULL;

-- Runs with deltas in their logs, which are trimmed some time after the run's end. `ended_at` is copied from the
-- outcome by trimming, so that the end of a run need not write it.
CREATE TABLE transient (
    number bigint PRIMARY KEY,
    ended_at bigint
);
CREATE INDEX transient_open ON transient (number) WHERE ended_at IS NULL;
CREATE INDEX transient_ended ON transient (ended_at, number) WHERE ended_at IS NOT NULL;

-- Operator settings, and counts of submissions that were not simply accepted.
CREATE TABLE cap (
    "user" text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    cap bigint NOT NULL,
    PRIMARY KEY ("user", lane)
);

CREATE TABLE paused (
    what text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (what, name)
);

CREATE TABLE disabled (
    task text COLLATE "C" PRIMARY KEY
);

CREATE TABLE session_rule (
    name text COLLATE "C" PRIMARY KEY,
    rule text NOT NULL
);

CREATE TABLE lane_count (
    lane text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (lane, what)
);

-- The circuits of tasks, as `core.queue.circuits` has them. One that is closed and counts nothing is not stored.
CREATE TABLE circuit (
    key text COLLATE "C" PRIMARY KEY,  -- the task, or the task, a line break and the user
    task text COLLATE "C" NOT NULL,
    failures int NOT NULL,       -- in a row
    until bigint,                -- open until then, and half open after it
    probe bigint,                -- the run that decides
    fence int                    -- under this lease
);
CREATE INDEX circuit_open ON circuit (task) WHERE until IS NOT NULL;

-- How many runs are parked behind a circuit, per lane, so that a claim need not look for the sets that exist.
CREATE TABLE broken (
    lane text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    runs int NOT NULL,
    PRIMARY KEY (lane, key)
);

-- Jobs and the records of their fires. `spec` is the job as it was declared and `state` how it stands, as JSON; the
-- columns before them are copies, for lookups. `fire_at` is when it is due, NULL for one that does not
-- fire.
CREATE TABLE job (
    id text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C",
    name text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    source text NOT NULL,        -- 'call', 'code' or 'file'
    is_on int NOT NULL,          -- whether it fires
    fire_at bigint,
    version bigint NOT NULL,
    call text NOT NULL,          -- the newest call that changed it
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    spec text NOT NULL,
    state text NOT NULL
);
CREATE INDEX job_due ON job (fire_at, id) WHERE fire_at IS NOT NULL;
CREATE INDEX job_listed ON job (name, id);
-- Names of jobs are unique per owner, and among jobs without an owner.
CREATE UNIQUE INDEX job_owned ON job (owner, name) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX job_unowned ON job (name) WHERE owner IS NULL;

-- A fire, or a stretch of fires with one fate. `nth` counts a job's records from 1; a run's is found by `run_id`.
CREATE TABLE fire (
    job text COLLATE "C" NOT NULL,
    nth bigint NOT NULL,
    run_id text COLLATE "C",
    record text NOT NULL,        -- as JSON
    PRIMARY KEY (job, nth)
);
CREATE INDEX fire_run ON fire (job, run_id) WHERE run_id IS NOT NULL;

-- A run as people read it.
CREATE VIEW record AS
SELECT
    run.number, run.id, run.task, run.args, run.lane, run."user",
    coalesce(run.session, run.ties::json ->> 'session') AS session,
    run.priority,
    CASE WHEN lease.number IS NULL THEN coalesce(outcome.state, 'pending') ELSE 'running' END AS state,
    coalesce(lease.attempt, outcome.attempt, 1) AS attempt,
    coalesce(lease.fence, outcome.fence, 0) AS fence,
    coalesce(outcome.crashes, 0) AS crashes,
    run.accepted_at,
    coalesce(outcome.due_at, run.due_at) AS due_at,
    coalesce(lease.started_at, outcome.started_at) AS started_at,
    outcome.ended_at, outcome.result, outcome.error, outcome.reason,
    coalesce(lease.died, lease.holder) AS worker,
    CASE WHEN lease.number IS NOT NULL THEN lease.request
    WHEN outcome.state = 'waiting' THEN (SELECT request FROM wait WHERE wait.number = run.number) END AS request,
    run.retry_of,
    (SELECT count(*) FROM message WHERE message.number = run.number) AS messages,
    run.ties,
    CASE WHEN lease.number IS NULL AND outcome.state = 'waiting'
    THEN (SELECT body FROM wait WHERE wait.number = run.number) END AS wait
FROM run
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number;

-- Tables whose rows change all the time.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['ready', 'parked', 'held', 'due', 'lease'] LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,'
            ' autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,'
            ' autovacuum_vacuum_cost_delay = 0)', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY[
        'lane', 'pace', 'turn', 'seat', 'session', 'worker', 'heartbeat', 'counter', 'aside', 'broken'
    ] LOOP
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,'
            ' autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0,'
            ' autovacuum_analyze_threshold = 2000, autovacuum_vacuum_cost_delay = 0)', name);
    END LOOP;
END
$$;
