"""What the core asks of a store, done to records in memory: accept, control, settle, take over, wake."""
