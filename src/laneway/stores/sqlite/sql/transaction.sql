-- What a writing verb asks first.

-- name: glance
-- Read the last acceptance number, when the next future run is due, whether runs are set aside, and whether any worker but
-- one rests. The counter is behind the newest run until runs are pruned. Index: primary keys, and worker_idle.
SELECT max(accepted, coalesce((SELECT max(number) FROM run), 0)), (SELECT min(rank) FROM due),
    EXISTS (SELECT 1 FROM aside), EXISTS (SELECT 1 FROM worker INDEXED BY worker_idle WHERE idle AND id IS NOT ?)
FROM counter WHERE one = 1;

-- name: next_due
-- Tell when the next future run is due. Index: the primary key.
SELECT min(rank) FROM due;
