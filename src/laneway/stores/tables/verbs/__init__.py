"""The verbs of the store that change something."""
