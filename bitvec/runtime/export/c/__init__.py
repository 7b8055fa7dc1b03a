"""A forest as one header of C99, for microcontrollers and whatever else has a C compiler."""

from bitvec.runtime.export.c.c99 import Form, Thresholds, to_c
from bitvec.runtime.export.c.estimate import CSource, Estimate

__all__ = ["CSource", "Estimate", "Form", "Thresholds", "to_c"]
