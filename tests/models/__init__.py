"""Catalogues of models: a module for each library, read by tests, version checks and benchmarks.

They import numpy and their library alone, so that any version of it can train them.
"""
