"""Leaf values added to the scores of rows."""
