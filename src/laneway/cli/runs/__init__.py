"""`laneway runs`, `submit` and `why`."""
