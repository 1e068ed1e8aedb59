"""All that the memory store has, as pieces for a move, and pieces taken in."""
