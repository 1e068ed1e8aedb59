"""Which pending run may start, and in which order: turns, sessions, shelves, circuit breakers, the claim."""
