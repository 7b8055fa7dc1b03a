"""Kernels that read planes and pass all nodes of a tree for all rows of a block."""
