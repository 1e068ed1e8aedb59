"""Maintenance: prune old runs, trim old logs, check that the tables agree with each other."""
