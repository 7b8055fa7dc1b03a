"""A forest as one header of C99, for microcontrollers and whatever else has a C compiler."""

from bitvec.runtime.export.c.source import CSource, Estimate
from bitvec.runtime.export.c.writer import Form, Thresholds, to_c

__all__ = ["CSource", "Estimate", "Form", "Thresholds", "to_c"]
