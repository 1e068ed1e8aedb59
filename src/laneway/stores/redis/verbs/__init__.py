"""The verbs of the store: each calls a script of `lua/verbs/` or reads by commands."""
