"""How work is done: the writer's transactions, the reader's snapshots, and wake-ups between processes."""
