"""Rows of single tables: how each is stored, read and written."""
