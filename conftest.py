"""Test configuration of doctests: modules of a library that is not installed are left out."""

from importlib.util import find_spec

NEED = {
    "triton": ["bitvec/runtime/predict/gpu"],
    "jax": ["bitvec/runtime/export/jax_operators.py", "bitvec/runtime/export/jax_programs.py"],
}
collect_ignore = [path for name, paths in NEED.items() if not find_spec(name) for path in paths]
