"""Rows that reach every node of a forest and exercise every outcome of its test."""

from bitvec.verify.probing.code_runs import LONG_RUN, has_long_runs
from bitvec.verify.probing.coverage import Coverage
from bitvec.verify.probing.key_parts import can_be_searched
from bitvec.verify.probing.proofs import MAGNITUDE
from bitvec.verify.probing.rows import Probes, probe_rows

__all__ = [
    "LONG_RUN",
    "MAGNITUDE",
    "Coverage",
    "Probes",
    "can_be_searched",
    "has_long_runs",
    "probe_rows",
]
