"""A forest as one header of C99, for microcontrollers and whatever else has a C compiler."""

from bitvec.runtime.export.c.source import CSource, Estimate
from bitvec.runtime.export.c.writer import to_c

__all__ = ["CSource", "Estimate", "to_c"]
