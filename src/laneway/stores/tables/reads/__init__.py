"""The verbs of the store that only read."""
