"""Pruning, trimming, and checking that the tables agree with each other."""
