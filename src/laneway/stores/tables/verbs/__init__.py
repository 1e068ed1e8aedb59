"""The verbs of the store that write, each in one transaction."""
