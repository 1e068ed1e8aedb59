"""Which pending run may start, and in which order: turns, sessions, shelves, breakers' circuits, the claim."""
