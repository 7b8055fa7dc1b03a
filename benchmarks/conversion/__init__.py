"""Time and memory of conversions: a row a format, 100 trees, 556,000 leaves.

    python -m benchmarks.conversion [--json] [--quick] [--save]

The models are synthetic: a few large trees that each library grew, repeated up to that size.
`--only NAME` measures the formats whose name contains it.
"""

from benchmarks.conversion.summary import table

__all__ = ["table"]
