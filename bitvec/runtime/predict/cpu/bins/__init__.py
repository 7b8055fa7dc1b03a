"""Binned columns: bytes for each row of a block, which nodes read in place of X."""
