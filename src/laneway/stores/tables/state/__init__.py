"""What a transaction reads into memory, changes, and writes back at its end: counts, shelves, circuits, jobs."""
