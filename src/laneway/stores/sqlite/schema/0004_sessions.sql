-- What a session does with a message: who holds its places, what other runs took, and what keys stand for.

-- `session` knows its runs by number now. `admitted` is a JSON list; `rest` holds what few sessions have, as JSON.
ALTER TABLE session RENAME TO counted_session;
CREATE TABLE session (
    name TEXT PRIMARY KEY,
    admitted TEXT NOT NULL,
    unstarted INTEGER NOT NULL,
    held INTEGER NOT NULL,
    back INTEGER NOT NULL,
    joined INTEGER NOT NULL,
    front INTEGER NOT NULL,
    rest TEXT
) STRICT, WITHOUT ROWID;

-- Until now a place was held by every run that was started or startable and had not ended. In which order they were
-- admitted is not known any more: that of acceptance is as good.
WITH place (session, number, unstarted) AS (
    SELECT session, number, 0 FROM lease CROSS JOIN run USING (number) WHERE session IS NOT NULL
    UNION ALL SELECT session, number, NOT kind & 1 FROM ready CROSS JOIN run USING (number) WHERE session IS NOT NULL
    UNION ALL SELECT session, number, NOT kind & 1 FROM parked CROSS JOIN run USING (number) WHERE session IS NOT NULL
    UNION ALL SELECT session, number, 0 FROM due CROSS JOIN run USING (number) WHERE session IS NOT NULL AND kind & 1
    UNION ALL SELECT session, number, 0 FROM outcome INDEXED BY outcome_kept CROSS JOIN run USING (number)
    WHERE session IS NOT NULL AND ended_at IS NULL AND state <> 'pending' AND fence > 0
),
roster (session, admitted, unstarted) AS (
    SELECT session, json_group_array(number), max(iif(unstarted, number, 0))
    FROM (SELECT * FROM place ORDER BY session, number) GROUP BY session
)
INSERT INTO session (name, admitted, unstarted, held, back, joined, front, rest)
SELECT name, coalesce(roster.admitted, '[]'), coalesce(roster.unstarted, 0), held, 0, joined, 0,
    iif(max_concurrent = 1, NULL, json_object('given', json_object('max_concurrent', max_concurrent)))
FROM counted_session LEFT JOIN roster ON roster.session = name;
DROP TABLE counted_session;

-- `kind` is as on the other shelves; `paused` is set for a run that is paused where it is held.
ALTER TABLE held ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
ALTER TABLE held ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;

-- So that a session's future runs are found.
ALTER TABLE due ADD COLUMN session TEXT;
UPDATE due SET session = (SELECT session FROM run WHERE run.number = due.number);
CREATE INDEX due_session ON due (session, rank, number) WHERE session IS NOT NULL AND kind = 0;

-- What a run that joins later says of its session then, as JSON.
ALTER TABLE run ADD COLUMN arrival TEXT;
UPDATE run SET arrival = json_object('rule', json_object('max_concurrent', max_concurrent))
WHERE max_concurrent IS NOT NULL AND session IS NOT NULL AND number IN (
    SELECT number FROM due WHERE kind = 0
    UNION ALL SELECT number FROM outcome INDEXED BY outcome_kept
    WHERE ended_at IS NULL AND state <> 'pending' AND fence = 0
);
ALTER TABLE run DROP COLUMN max_concurrent;

-- Submissions that another run took; `nth` counts those of one run and kind. An id stands for the run that took it first:
-- what was left unread becomes part of another run, and is `moved` there. `open` until the run has ended.
CREATE TABLE message (
    number INTEGER NOT NULL,     -- of the run
    kind TEXT NOT NULL,          -- 'merged' or 'steered'
    nth INTEGER NOT NULL,
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    lane TEXT NOT NULL,
    user TEXT,
    priority INTEGER NOT NULL,
    key TEXT,
    moved INTEGER NOT NULL DEFAULT 0,
    open INTEGER NOT NULL DEFAULT 1,
    read INTEGER NOT NULL DEFAULT 0,  -- by the newest attempt that ended
    args TEXT NOT NULL,
    UNIQUE (number, kind, nth)
) STRICT;
CREATE UNIQUE INDEX message_id ON message (id) WHERE NOT moved;
CREATE INDEX message_open ON message (number, kind) WHERE open;

-- Idempotency keys. The user '' stands for none. `gone` once the run is pruned.
CREATE TABLE key (
    task TEXT NOT NULL,
    user TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task, user, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_number ON key (number);
CREATE INDEX key_gone ON key (at) WHERE gone;

-- The arguments of a run as `before_start` left them, as JSON.
CREATE TABLE prepared (
    number INTEGER PRIMARY KEY,
    args TEXT NOT NULL
) STRICT;

-- `cleared`: what is unread when it ends is dropped. `messages`: how many it had taken when it was claimed.
ALTER TABLE lease ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;

DROP VIEW record;
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
    coalesce(lease.died, lease.holder) AS worker,
    lease.request, run.retry_of,
    (SELECT count(*) FROM message WHERE message.number = run.number) AS messages
FROM run
LEFT JOIN outcome ON outcome.number = run.number
LEFT JOIN lease ON lease.number = run.number;
