"""The way to a PostgreSQL server: address, connection, settings, pipeline, errors."""
