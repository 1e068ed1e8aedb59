"""The PostgreSQL store: many machines, and submissions inside your own transactions."""
