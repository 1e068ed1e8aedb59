"""Submissions inside a caller's own transaction: written there, accepted after its COMMIT."""
