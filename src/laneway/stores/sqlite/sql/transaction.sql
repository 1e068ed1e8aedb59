-- What a writing verb asks first.

-- name: glance
-- Read the last acceptance number, when the next future run is due, whether runs are set aside, whether any worker but
-- the one who asks rests, whether anything is requested of that one's runs, and whether runs were resumed that were never
-- started. The counter is behind the newest run until runs are pruned.
-- Index: primary keys, worker_idle, lease_requested and outcome_resumed.
SELECT max(accepted, coalesce((SELECT max(number) FROM run), 0)), (SELECT min(rank) FROM due),
    EXISTS (SELECT 1 FROM aside), EXISTS (SELECT 1 FROM worker INDEXED BY worker_idle WHERE idle AND id IS NOT ?1),
    EXISTS (SELECT 1 FROM lease INDEXED BY lease_requested WHERE holder = ?1 AND request IS NOT NULL),
    EXISTS (SELECT 1 FROM outcome INDEXED BY outcome_resumed WHERE fence = 0 AND state = 'pending')
FROM counter WHERE one = 1;

-- name: next_due
-- Tell when the next future run is due. Index: the primary key.
SELECT min(rank) FROM due;
