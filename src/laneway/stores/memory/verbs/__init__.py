"""The verbs of the memory store that read, that change jobs, and that move its content."""
