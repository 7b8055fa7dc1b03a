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
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Float, UInt16
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.leaf_shares import LeafShares
from bitvec.runtime.export.c.levels import Levels
from bitvec.runtime.export.c.sparse_leaves import SparseLeaves
from bitvec.runtime.export.c.tree_code import Route

_LARGEST = np.iinfo(np.uint16).max


def adds_by_class(forest: Forest) -> bool:
    """Return whether the label is the class with the greatest sum of leaves' numbers."""
    output, divisor = forest.output, forest.output.divisor
    return (
        output.is_classifier
        and output.dtype == np.float64
        and output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        and forest.leaves.output is None
        and forest.leaves.linear is None
        and len(output.groups) == 1
        and output.groups[0] > 1
        and (output.labels_from_raw or output.post_transform is PostTransform.IDENTITY)
        and output.scale is None
        and not output.base_score.any()
        and (divisor is None or (divisor[0] > 0 and bool((divisor == divisor[0]).all())))
    )


def whole_numbers(
    forest: Forest, numbers: Float[Array, " n_numbers"]
) -> UInt16[Array, " n_numbers"] | None:
    """Return the numbers that scores add as whole ones, None where these do not tell labels.

    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> whole_numbers(stump, stump.leaves.v.ravel()) is None  # it has no classes
    True
    """
    largest = float(numbers.max(initial=0.0))
    if not adds_by_class(forest) or forest.n_trees > _LARGEST:
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


def add_share_label(header: Header, levels: Levels, shares: LeafShares) -> str:
    """Append `whole_label` by sums of shares, and return the lines by which a label is taken."""
    declared, added, parted = shares.sums()
    half = (shares.total + shares.margin) // 2 + 1
    sums = [shares.sum_of(k) for k in range(shares.n_outputs)]
    header.code(
        _SHARE_LABEL,
        declare=declared + levels.declare,
        prepare=levels.prepare,
        start=levels.start,
        end=levels.end,
        place=levels.place,
        vector=levels.vector,
        next=levels.next,
        add=added,
        part=parted,
        first=sums[0],
        more="".join(_MORE.format(k=k, sum=each) for k, each in enumerate(sums[1:], 1)),
        margin=(shares.margin + 1) << 16,
        by_half=_BY_HALF.format(half=half << 16) if half < 1 << 16 else "",
        near="".join(_NEAR.format(sum=each) for each in sums),
    )
    return _BY_WHOLE


_SHARE_LABEL = """
/* The class whose sum of shares no rounding of scores could bring to another's, else @@N_OUTPUTS.
   A sum is in the upper half of a word: what is in the lower one is less than 1 of it. */
static inline uint32_t @whole_label(const @input *x)
{
    uint32_t tree = $start;
    uint32_t label = 0;
    uint32_t near = 0;
    uint32_t best;
$declare$prepare    do {
$place        const uint32_t *share = @leaf_share + $vector;
$add$next    } while (tree != ${end}U);
$part    best = $first;
$more$by_half    if (best <= ${margin}U) {
        return @@N_OUTPUTS;
    }
    best -= ${margin}U;
$near    return near == 1U ? label : @@N_OUTPUTS;
}
"""
_MORE = """    if (({sum}) > best) {{
        best = {sum};
        label = {k};
    }}
"""
_BY_HALF = """    if (best >= {half}U) {{
        return label;
    }}
"""
_NEAR = "    near += ({sum}) > best;\n"
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
