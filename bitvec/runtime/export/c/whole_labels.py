"""Labels from sums of whole numbers, wherever rounding cannot change the label.

A leaf's numbers v become w = round(c · v), of 16 bits. With T trees the sums W and S of w and v for
a class differ by |W − c · S| <= T / 2. So of two classes with W₁ − W₂ > T + 1 the first one has the
greater score, rounded or not: T is at most 2**16, and float64 sums of numbers that are not negative
are off by a part in 2**37 then. All other rows take the scores themselves. Whole numbers are
added without a floating point unit of 64 bits, which few microcontrollers have.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float, UInt16
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.sparse_leaves import SparseLeaves
from bitvec.runtime.export.c.tree_code import Route

_LARGEST = np.iinfo(np.uint16).max


def whole_numbers(
    forest: Forest, numbers: Float[Array, " n_numbers"]
) -> UInt16[Array, " n_numbers"] | None:
    """Return the numbers that scores add as whole ones, None where these do not tell labels.

    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> whole_numbers(stump, stump.leaves.v.ravel()) is None  # it has no classes
    True
    """
    output, divisor = forest.output, forest.output.divisor
    largest = float(numbers.max(initial=0.0))
    by_order = (
        output.is_classifier
        and output.dtype == np.float64
        and len(output.groups) == 1
        and (output.labels_from_raw or output.post_transform is PostTransform.IDENTITY)
        and output.scale is None
        and not output.base_score.any()
        and (divisor is None or (divisor[0] > 0 and bool((divisor == divisor[0]).all())))
    )
    if not by_order or forest.n_trees > _LARGEST:
        return None
    if not (numbers >= 0).all() or not 0 < largest < np.inf:
        return None
    return np.rint(numbers.astype(np.float64) * (_LARGEST / largest)).astype(np.uint16)


def add_whole_label(header: Header, forest: Forest, route: Route, sparse: SparseLeaves) -> str:
    """Append `whole_label`, and return the lines by which a label is taken from it, if any."""
    numbers = whole_numbers(forest, sparse.numbers)
    if numbers is None:
        return ""
    header.table("leaf_wholes", numbers, "the same as whole numbers, but for a factor")
    add = sparse.add_adder(header, "add_whole", "uint32_t", "leaf_wholes")
    header.code(
        _WHOLE_LABEL,
        margin=forest.n_trees + 1,
        add=header.filled(add).replace("raw", "sum"),
        declare=header.filled(route.declare),
        prepare=header.filled(route.prepare),
        place=header.filled(route.place),
    )
    return _BY_WHOLE


_WHOLE_LABEL = """
/* The class whose sum of whole numbers no rounding of scores could bring to another's, else
   @@N_OUTPUTS. */
static inline uint32_t @whole_label(const @input *x)
{
    uint32_t sum[@@N_OUTPUTS];
    uint32_t best = 0;
    uint32_t second = 0;
    uint32_t tree;
    uint32_t k;
$declare$prepare    for (k = 0; k < @@N_OUTPUTS; k++) {
        sum[k] = 0;
    }
    for (tree = 0; tree < @@N_TREES; tree++) {
        const uint32_t leaf = $place;
$add    }
    for (k = 1; k < @@N_OUTPUTS; k++) {
        if (sum[k] > sum[best]) {
            second = sum[best];
            best = k;
        } else if (sum[k] > second) {
            second = sum[k];
        }
    }
    return sum[best] - second > ${margin}U ? best : @@N_OUTPUTS;
}
"""
_BY_WHOLE = """    const uint32_t whole = @whole_label(x);
    if (whole < @@N_OUTPUTS) {
        label[0] = (uint16_t)whole;
        return;
    }
"""
