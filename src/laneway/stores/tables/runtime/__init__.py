"""What a process has to reach the tables: threads, queues, wake-ups, and the cache from step to step."""
