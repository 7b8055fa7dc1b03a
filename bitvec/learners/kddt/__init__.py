"""Kernel Density Decision Trees: CART fitted to a kernel density estimate of the data."""
