"""Encoding and decoding: keys, arguments and replies of scripts, to and from values of the core."""
