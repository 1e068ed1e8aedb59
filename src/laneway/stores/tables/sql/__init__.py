"""Named SQL statements, and the database that executes them."""
