"""Differences between two forests: `diff`."""

from bitvec.differences.report import Diff, diff

__all__ = ["Diff", "diff"]
