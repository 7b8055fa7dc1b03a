"""The CPU engine: a forest packed for compiled kernels, which run it on threads."""
