"""One row, or a few: 8 trees at a time, and as little around them as a call can do with.

All that a call hands over is X, one address and what it fills: each array that numba unpacks costs
a fifth of what a small forest takes. Behind the address lie the addresses of everything else.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numba import carray

from bitvec import transforms
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.output import Aggregate, Output, PostTransform
from bitvec.runtime.cpu import keyed, leaf_sums
from bitvec.runtime.cpu.arrays import address_of, constant, load_int64, pointer
from bitvec.runtime.cpu.compiling import inner, kernel
from bitvec.runtime.cpu.key_planes import infinity_key, plane_value, read_key, reading_of
from bitvec.runtime.cpu.keyed import (
    COMPARED,
    NARROW_LEAVES,
    NARROW_PLANES,
    WIDE_LEAVES,
    WIDE_PLANES,
)

FIELDS = (
    "n_trees",
    "leaf_ptr",
    "nodes",
    "n_planes",
    "planes",
    "words",
    "reading",
    "n_vectors",
    "id_of",
    "has_vectors",
    "entry_ptr",
    "column",
    "v",
    "width",
    "start",
    "divisor",
    "scale",
    "base",
)
"""What stands behind the address, as int64: numbers, and addresses of arrays, 0 for none."""
(
    _N_TREES,
    _LEAF_PTR,
    _NODES,
    _N_PLANES,
    _PLANES,
    _WORDS,
    _READING,
    _N_VECTORS,
    _ID_OF,
    _HAS_VECTORS,
    _ENTRY_PTR,
    _COLUMN,
    _V,
    _WIDTH,
    _START,
    _DIVISOR,
    _SCALE,
    _BASE,
) = (8 * k for k in range(len(FIELDS)))

_PLANE_BYTES = keyed.PLANE.itemsize
_NARROW_MASK, _NARROW_SHIFT = np.uint64((1 << NARROW_PLANES) - 1), np.uint64(32 + NARROW_PLANES)
_WIDE_MASK, _WIDE_SHIFT = np.uint64((1 << WIDE_PLANES) - 1), np.uint64(WIDE_PLANES)
