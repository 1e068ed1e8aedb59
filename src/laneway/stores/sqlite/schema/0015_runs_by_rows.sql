-- Every run has a row of its own again.

-- Layout 14 kept runs that were submitted together in one row of `sheaf`, a line of `ids` and of `args` for each, and made
-- rows of them later. Those that are still there become rows now. Each step of `line` takes the first line of both.
INSERT INTO run (number, id, task, lane, user, priority, accepted_at, due_at, rank, args)
WITH RECURSIVE line (first, nth, id, ids, args, more_args) AS (
    SELECT first, -1, '', ids || char(10), '', args || char(10) FROM sheaf
    UNION ALL
    SELECT first, nth + 1,
        substr(ids, 1, instr(ids, char(10)) - 1), substr(ids, instr(ids, char(10)) + 1),
        substr(more_args, 1, instr(more_args, char(10)) - 1), substr(more_args, instr(more_args, char(10)) + 1)
    FROM line WHERE ids <> ''
)
SELECT first + nth, line.id, task, lane, user, priority, accepted_at, accepted_at, rank + nth, line.args
FROM line JOIN sheaf USING (first) WHERE nth >= 0;
INSERT INTO ready (lane, rank, number, kind)
SELECT run.lane, run.rank, number, 0 FROM sheaf JOIN run ON number BETWEEN first AND first + runs - 1;

-- 10,000 numbers were reserved while there was a sheaf. What is left of them is given back.
UPDATE counter SET accepted = (SELECT max(first + runs) - 1 FROM sheaf)
WHERE accepted = (SELECT min(first) + 9999 FROM sheaf);
DROP TABLE sheaf;
