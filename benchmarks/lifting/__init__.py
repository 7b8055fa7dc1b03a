"""How long does a lift take, and how much memory? One row a format, 556,000 leaves in 100 trees.

    python -m benchmarks.lifting [--json] [--quick] [--save]

The models are synthetic: a few large trees that each library grew, repeated up to that size.
`--only NAME` measures the formats whose name contains it.
"""

from benchmarks.lifting.summary import table

__all__ = ["table"]
