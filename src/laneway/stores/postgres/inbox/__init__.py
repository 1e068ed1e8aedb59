"""Submissions inside a caller's own transaction."""
