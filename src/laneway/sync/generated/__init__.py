"""The blocking forms of a scheduler's calls, made from its source by `make sync`."""
