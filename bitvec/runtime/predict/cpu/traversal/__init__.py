"""Kernels in which each row goes its own way down a tree, from node to node."""
