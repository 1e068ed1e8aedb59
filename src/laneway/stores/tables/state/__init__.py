"""What one transaction holds in memory, and writes back at its end: counts, shelves, circuits, jobs."""
