"""The verbs of the store that only read, each in one snapshot."""
