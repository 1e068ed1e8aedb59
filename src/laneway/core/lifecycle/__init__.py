"""What becomes of a run: accepted, controlled, settled, followed, trimmed; and why it does not start."""
