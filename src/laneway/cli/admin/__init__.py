"""`laneway lanes`, `sessions`, `users`, `tasks` and `workers`."""
