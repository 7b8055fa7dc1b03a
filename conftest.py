"""Test configuration of doctests: modules of a library that is not installed are left out."""

from importlib.util import find_spec

_TRITON = ["bitvec/runtime/predict/gpu", "tests/runtime/predict/gpu/machine_code.py"]
collect_ignore = [] if find_spec("triton") else _TRITON
