"""Moves from one store to another: the phases, and packing and unpacking pieces."""
