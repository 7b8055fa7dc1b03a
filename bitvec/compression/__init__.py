"""Compression: the best model within a budget of bytes, leaves or microseconds."""
