"""What a process has to reach the tables: threads with their queues, and wake-ups."""
