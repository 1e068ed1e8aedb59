"""The verbs of the memory store that read, that are about jobs, and that move it."""
