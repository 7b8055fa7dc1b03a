"""Time and memory of one training step of every relaxation, beside the dense product.

100 trees of depths 4 to 14, 32 columns, 1,024 rows, S, b and v free: forward and backward. Each
form is measured in a process of its own for its memory, on Linux; the two that are compared take
turns in one process for their time, after their answers were found equal.
"""

from benchmarks.relaxed.summary import table

__all__ = ["table"]
