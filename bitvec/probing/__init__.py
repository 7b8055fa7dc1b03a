"""Rows that reach every node of a forest and exercise every outcome of its test."""

from bitvec.probing.rows import Coverage, Probes, probe_rows

__all__ = ["Coverage", "Probes", "probe_rows"]
