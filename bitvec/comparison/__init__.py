"""What moved between two forests: `diff`."""

from bitvec.comparison.report import Diff, diff

__all__ = ["Diff", "diff"]
