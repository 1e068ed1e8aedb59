"""`laneway demo`."""
