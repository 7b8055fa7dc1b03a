"""Test configuration of doctests: modules of a library that is not installed are left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["bitvec/runtime/predict/gpu"]
