"""The rules of laneway, pure: values in, values out; no clock, no randomness, no I/O.

Instants are integers here: microseconds since 1970 in UTC (`instants` converts them). Stores and the engine call these
functions. Nothing in here calls them.
"""
