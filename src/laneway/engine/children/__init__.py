"""Handlers in child processes: the pool of children, and what both sides say to each other."""
