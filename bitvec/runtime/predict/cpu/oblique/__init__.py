"""Tests of several columns: what their rows of S read, and their sums."""
