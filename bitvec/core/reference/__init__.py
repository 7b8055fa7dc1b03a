"""The equation, literally, in NumPy: the oracle that every engine is held to.

Nothing here is fast. `outcomes` decides one node for one row; everything else follows from it and
from the dense or interval form of B.
"""

from bitvec.core.directions import margins, turns
from bitvec.core.reference.exit_leaf_forms import (
    BLOCK,
    exit_leaf_bitvector,
    exit_leaf_packed,
    exit_leaf_ternary,
    exit_leaf_traversal,
    exit_leaf_two_sided,
    exit_leaves,
)
from bitvec.core.reference.exit_leaf_sums import accumulate, combine, leaf_vectors
from bitvec.core.reference.node_outcomes import columns, hard_tests, outcomes
from bitvec.core.reference.soft_forms import (
    kernel_memberships,
    raw,
    sigmoid_memberships,
    soft_vectors,
)

__all__ = [
    "BLOCK",
    "accumulate",
    "columns",
    "combine",
    "exit_leaf_bitvector",
    "exit_leaf_packed",
    "exit_leaf_ternary",
    "exit_leaf_traversal",
    "exit_leaf_two_sided",
    "exit_leaves",
    "hard_tests",
    "kernel_memberships",
    "leaf_vectors",
    "margins",
    "outcomes",
    "raw",
    "sigmoid_memberships",
    "soft_vectors",
    "turns",
]
