"""Monotone constraints: read, kept by cutting leaves, and checked leaf box by leaf box."""

from bitvec.runtime.train.monotone.monotone_constraints import CUT, Monotone

__all__ = ["CUT", "Monotone"]
