"""Computations as plain data, from which files of a graph are made."""
