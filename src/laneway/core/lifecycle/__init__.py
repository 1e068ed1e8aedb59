"""The life of a run: how it is accepted, controlled, settled, followed up and trimmed; and why it does not start."""
