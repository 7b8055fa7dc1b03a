"""The CPU engine: a forest packed for compiled kernels, which run it on threads."""

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("numba") is None:
    raise MissingLibraryError("numba", "all", "Compiling kernels")
