-- What became of submissions and runs that were not simply accepted.

-- name: count
-- Count more of it in a lane. Index: the primary key.
INSERT INTO lane_count (lane, what, count) VALUES (?, ?, ?)
ON CONFLICT (lane, what) DO UPDATE SET count = count + excluded.count;

-- name: counts
-- Read all counts in order. It reads the table, a few rows per lane.
SELECT lane, what, count FROM lane_count ORDER BY lane, what;
