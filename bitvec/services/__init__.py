"""Batches of rows: one callable for all engines, and files that are larger than memory."""
