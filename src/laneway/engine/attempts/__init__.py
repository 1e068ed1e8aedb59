"""One attempt of a run: how its handler is prepared, called, watched and stopped."""
