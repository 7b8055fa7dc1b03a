"""Kernels that read binned columns and pass all nodes of a tree for all rows of a block."""
