"""Rows for every table of a PostgreSQL store: enough that its planner takes none of them for a short one."""

# Runs 1 to 1500 have ended, those up to 1600 are kept, the others are on a shelf or leased.
ROWS = """
INSERT INTO run SELECT n, n, n, n, 0, 'run' || n, 'task' || n % 5, 'main', 'user' || n % 100, 's' || n % 500, NULL,
    NULL, NULL, '{}' FROM generate_series(1, 3000) AS n;
INSERT INTO outcome SELECT n, NULL, n, n, 1, 0, 1, 3, CASE n % 3 WHEN 0 THEN 'failed' ELSE 'succeeded' END, NULL, NULL,
    '1', '[]' FROM generate_series(1, 1500) AS n;
INSERT INTO outcome SELECT n, NULL, NULL, NULL, 1, 0, n % 2, 3, CASE n % 3 WHEN 0 THEN 'paused' ELSE 'pending' END,
    NULL, NULL, NULL, NULL FROM generate_series(1501, 1600) AS n;
INSERT INTO event SELECT n, 1 + 3 * m, '[]' FROM generate_series(1, 1500) AS n, generate_series(0, 1) AS m;
INSERT INTO ready (rank, number, kind, lane) SELECT n, n, 0, 'main' FROM generate_series(1601, 2000) AS n;
INSERT INTO parked SELECT n, n, 0, 'main', 'user:user' || n % 100 FROM generate_series(2001, 2300) AS n;
INSERT INTO held SELECT n, n, 0, 0, 's' || n % 500 FROM generate_series(2301, 2500) AS n;
INSERT INTO due SELECT n, n, 0, 's' || n % 500 FROM generate_series(2501, 2700) AS n;
INSERT INTO lease (number, started_at, call, nth, fence, attempt, events, holder)
    SELECT n, n, 1, n, 1, 1, 0, 'w' || n % 20 FROM generate_series(2701, 3000) AS n;
INSERT INTO turn (lane, "user", priority, last, waiting) SELECT 'main', 'user' || n, 0, n, 5
    FROM generate_series(0, 99) AS n;
INSERT INTO seat (lane, "user", active, parked, out) SELECT 'main', 'user' || n, 1, 3, 0
    FROM generate_series(0, 99) AS n;
INSERT INTO session (name, admitted, unstarted, held, back, joined, front)
    SELECT 's' || n, '[]', 0, 1, 0, 0, 0 FROM generate_series(0, 499) AS n;
INSERT INTO checkpoint SELECT n, '{}' FROM generate_series(1, 300) AS n;
INSERT INTO prepared SELECT n, '{}' FROM generate_series(1, 300) AS n;
INSERT INTO control SELECT n, 'c' || n FROM generate_series(1, 300) AS n;
INSERT INTO message (number, nth, priority, kind, id, task, lane, args)
    SELECT n, 1, 0, 'steered', 'm' || n, 'task', 'main', '{}' FROM generate_series(1, 300) AS n;
INSERT INTO key SELECT 'task', 'user', 'k' || n, 'run' || n, n, 'd', n, n % 2 FROM generate_series(1, 600) AS n;
INSERT INTO memo (number, kind, name, body) SELECT n, 'step', 'a', '{}' FROM generate_series(1, 600) AS n;
INSERT INTO wait SELECT n, CASE n % 2 WHEN 0 THEN n END, NULL, '{}' FROM generate_series(1, 300) AS n;
INSERT INTO transient SELECT n, CASE n % 2 WHEN 0 THEN n END FROM generate_series(1, 600) AS n;
INSERT INTO cap SELECT 'user' || n, 'main', 3 FROM generate_series(1, 100) AS n;
INSERT INTO paused SELECT what, 'x' || n
    FROM generate_series(1, 50) AS n, unnest(ARRAY['user', 'session', 'task']) AS what;
INSERT INTO session_rule SELECT 's' || n, '{}' FROM generate_series(1, 100) AS n;
INSERT INTO circuit SELECT 'task' || n % 5 || chr(10) || 'user' || n, 'task' || n % 5, 1, CASE n % 2 WHEN 0 THEN n END,
    NULL, NULL FROM generate_series(1, 300) AS n;
INSERT INTO broken SELECT 'main', 'task1' || n, 1 FROM generate_series(1, 20) AS n;
INSERT INTO pace (lane, priority, v, ready) SELECT 'main', n, 0, 1 FROM generate_series(0, 3) AS n;
INSERT INTO job SELECT 'j' || n, CASE n % 2 WHEN 0 THEN 'o' || n % 50 END, 'name' || n, 'task', 'call', 1, n, 1, 'c', n,
    n, '{}', '{}' FROM generate_series(1, 1000) AS n;
INSERT INTO fire SELECT 'j' || n, m, 'r' || n || m, '{}' FROM generate_series(1, 300) AS n, generate_series(1, 5) AS m;
INSERT INTO worker (renewed_at, lease, id, incarnation, idle) SELECT n, 1, 'w' || n, '{}', n % 2
    FROM generate_series(0, 19) AS n;
INSERT INTO aside SELECT 'main', 't' || n, 1 FROM generate_series(1, 20) AS n;
ANALYZE;
"""
