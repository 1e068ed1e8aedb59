"""How a PostgreSQL server is reached, set up and asked."""
