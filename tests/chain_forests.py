"""Forests of chains, whose leaf of a whole number is that number."""

from __future__ import annotations

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.core.structure import arrange


def chains(sizes: list[int], **output: object) -> Forest:
    """One chain per size: leaf i of a tree is left of the threshold i."""
    left, right, roots, named, b = [], [], [], 0, []
    for size in sizes:
        first = len(left)
        roots.append(first if size > 1 else ~named)
        for node in range(size - 1):
            left.append(~(named + node))
            right.append(len(left) if node < size - 2 else ~(named + size - 1))
            b.append(float(node))
        named += size
    B = arrange(np.array(left), np.array(right), np.array(roots))[0]
    feature = np.zeros(B.n_nodes, np.int64)
    v = np.arange(named, dtype=np.float64)[:, None]
    return Forest(
        axis_aligned(feature, np.array(b, np.float32)),
        B,
        Leaves(v),
        Output(1, np.dtype(np.float64), **output),
        Inputs(1),
    )
