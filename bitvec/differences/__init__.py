"""Differences between two forests: `diff`."""

from bitvec.differences.forest_diff import Diff, diff

__all__ = ["Diff", "diff"]
