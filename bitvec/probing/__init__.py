"""Rows that reach every node of a forest and exercise every outcome of its test."""

from bitvec.probing.coverage import Coverage
from bitvec.probing.proofs import MAGNITUDE
from bitvec.probing.rows import Probes, probe_rows

__all__ = ["MAGNITUDE", "Coverage", "Probes", "probe_rows"]
