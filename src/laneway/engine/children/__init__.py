"""Handlers in child processes: the pool of children, and the protocol between worker and child."""
