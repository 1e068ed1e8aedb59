"""`laneway jobs` and `preview`."""
