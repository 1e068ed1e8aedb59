"""The memory store: the reference, in the memory of one process."""
