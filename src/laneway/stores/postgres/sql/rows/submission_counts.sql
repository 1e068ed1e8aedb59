-- Per lane, how many submissions were not simply accepted, and how many runs were dropped.

-- name: count
-- Add to a count of a lane. Index: the primary key.
INSERT INTO lane_count (lane, what, count) VALUES ($1::text, $2::text, $3::bigint)
ON CONFLICT (lane, what) DO UPDATE SET count = lane_count.count + excluded.count;

-- name: counts
-- Read all counts in order. It reads the table, a few rows per lane.
SELECT lane, what, count FROM lane_count ORDER BY lane, what;
