"""Raw scores from exit leaves, in the order and dtype of the forest's output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.score_operators import tree_output, weighted_leaves
from bitvec.core.output import Aggregate
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.leaf_shares import LeafShares, leaf_shares
from bitvec.runtime.export.c.literals import narrow_floats, narrow_integers, number
from bitvec.runtime.export.c.sparse_leaves import SparseLeaves, may_leave_out_zeros
from bitvec.runtime.export.c.tree_code import Route
from bitvec.runtime.export.c.vector_tables import (
    add_linear_leaves,
    add_vectors,
    fewest_bytes,
)
from bitvec.runtime.export.c.whole_labels import adds_by_class

EXTREMES = (Aggregate.MIN, Aggregate.MAX)

Term = Callable[[str], str]
"""From an expression of k to that of the number that the exit leaf adds there."""


def kept_shares(forest: Forest, leaf_of_place: Array, *, at_once: int) -> LeafShares | None:
    """Return the leaf vectors as shares, if these take no more bytes than other tables of them."""
    if not adds_by_class(forest):
        return None
    vectors = _vectors(forest, leaf_of_place)
    shares = leaf_shares(vectors, forest.n_trees)
    sparse = kept_sparse(forest, leaf_of_place, at_once=at_once)
    other = fewest_bytes(vectors) if sparse is None else sparse.nbytes + 2 * sparse.numbers.size
    return shares if shares is not None and shares.nbytes <= other else None


def kept_sparse(
    forest: Forest, leaf_of_place: Array | None, *, at_once: int
) -> SparseLeaves | None:
    """Return the leaf vectors without their zeros, if that is exact and takes fewer bytes.

    `at_once` is how many numbers of such a vector are added at once.
    """
    output, leaves = forest.output, forest.leaves
    adds = output.aggregate not in EXTREMES and leaves.output is None and leaves.linear is None
    if not adds or forest.n_outputs == 1 or not may_leave_out_zeros(output):
        return None
    vectors = _vectors(forest, leaf_of_place)
    sparse = SparseLeaves(vectors, at_once=at_once)
    return sparse if sparse.nbytes < fewest_bytes(vectors) else None


def add_scores(
    header: Header,
    forest: Forest,
    route: Route,
    sparse: SparseLeaves | None,
    add_shares: Callable[[], str] | None = None,
) -> None:
    """Append `leaves`, the exit leaves of a row, and `raw`, its raw score.

    `sparse` are leaf vectors without their zeros, and `add_shares` appends them as shares and
    returns the line that adds one.
    """
    output, linear = forest.output, forest.leaves.linear is not None
    values = {"declare": route.declare, "prepare": route.prepare}
    header.code(_LEAVES, **_filled(header, values | {"leaf": route.leaf}))
    add_kept = add_shares or (None if sparse is None else lambda: sparse.add(header))
    term = (lambda k: "") if add_kept else _add_terms(header, forest, route)
    named = "" if add_kept else _add_named_outputs(header, forest, route)
    if add_kept is not None:
        body = add_kept()
        if output.scale is not None:
            header.code(_PRODUCT)
    elif output.aggregate in EXTREMES:
        body = _extreme(header, forest, term, named)
    elif named:
        body = _NAMED.replace("$named", named).replace("$term", term("0"))
    else:
        body = _DENSE.replace("$term", term("k"))
    start = "0"
    if output.base_first:
        start = _per_output(header, "base", output.base_score, output.dtype)
    header.code(
        _RAW,
        vector=f"    @linear vector[{forest.leaves.v.shape[1]}];\n" if linear else "",
        compute="        @leaf_vector(x, leaf, vector);\n" if linear else "",
        start=start,
        body=body,
        finish=_finish(header, forest),
        **_filled(header, values | {"place": route.place}),
    )


def _filled(header: Header, values: dict[str, str]) -> dict[str, str]:
    return {word: header.filled(text) for word, text in values.items()}


def _at_places(leaf_of_place: Array | None, of_leaves: Array) -> Array:
    """Return what leaves have, for the places of the tables of leaves."""
    return of_leaves if leaf_of_place is None else of_leaves[leaf_of_place]


def _vectors(forest: Forest, leaf_of_place: Array | None) -> Array:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return _at_places(leaf_of_place, weighted_leaves(forest))


def _add_terms(header: Header, forest: Forest, route: Route) -> Term:
    """Append the leaf vectors, and return how to read what a leaf adds."""
    output = forest.output
    if forest.leaves.linear is None:
        add_vectors(header, "leaf_value", _vectors(forest, route.leaf_of_place), "@score")
        if output.scale is not None:
            header.code(_PRODUCT)
        return lambda k: f"@leaf_value(leaf, {k})"
    add_linear_leaves(header, forest)
    weighted = output.tree_weight is not None and output.aggregate not in EXTREMES
    if weighted or output.scale is not None:
        header.code(_PRODUCT)
    if not weighted:
        return lambda k: f"(@score)vector[{k}]"
    assert output.tree_weight is not None
    header.table("tree_weight", narrow_floats(output.tree_weight), "weight of each tree")
    return lambda k: f"@product((@score)@tree_weight[tree], (@score)vector[{k}])"


def _add_named_outputs(header: Header, forest: Forest, route: Route) -> str:
    """Append the one output that each tree or leaf adds to, and return its expression, if any."""
    if forest.leaves.output is None:
        return ""
    by_tree = tree_output(forest)
    if by_tree is not None:
        header.table("tree_output", narrow_integers(by_tree), "the output that each tree adds to")
        return "@tree_output[tree]"
    of_leaves = narrow_integers(_at_places(route.leaf_of_place, forest.leaves.output))
    header.table("leaf_output", of_leaves, "the output that each leaf adds to")
    return "@leaf_output[leaf]"


def _extreme(header: Header, forest: Forest, term: Term, named: str) -> str:
    """Return the lines that keep the least or the greatest; NaN wins, as in NumPy."""
    least = forest.output.aggregate is Aggregate.MIN
    part = f"{named} == k ? {term('0')} : (@score)0" if named else term("k")
    return _EXTREME.replace("$part", part).replace("$relation", "<" if least else ">")


def _finish(header: Header, forest: Forest) -> str:
    """Return the lines that make the total of the trees a raw score, as `Output.finish` does."""
    output, lines = forest.output, []
    if output.aggregate is Aggregate.MEAN:
        trees = np.full(output.n_outputs, forest.n_trees, output.dtype)
        divisor = trees if output.divisor is None else output.divisor
        lines.append(f"raw[k] = raw[k] / {_per_output(header, 'divisor', divisor, output.dtype)};")
    if output.scale is not None:
        scale = _per_output(header, "scale", output.scale, output.dtype)
        lines.append(f"raw[k] = @product(raw[k], {scale});")
    if not output.base_first:
        wide = output.base_score.dtype
        base = _per_output(header, "base", output.base_score, wide)
        total = "(double)raw[k]" if wide != output.dtype else "raw[k]"
        lines.append(f"raw[k] = (@score)({total} + {base});")
    if not lines:
        return ""
    inner = "".join(f"        {line}\n" for line in lines)
    return f"    for (k = 0; k < @@N_OUTPUTS; k++) {{\n{inner}    }}\n"


def _per_output(header: Header, name: str, values: Array | None, dtype: np.dtype) -> str:
    """Return the expression of output k's constant: a number if all are the same, else a table."""
    assert values is not None
    if len(np.unique(values.view(f"u{values.itemsize}"))) == 1:
        return number(values[0], dtype)
    header.table(name, narrow_floats(values), f"{name} of each output")
    return f"({'float' if dtype == np.float32 else 'double'})@{name}[k]"


_PRODUCT = """
/* A product that no compiler joins with the sum behind it: a fused one rounds once, not twice. */
static inline @score @product(const @score a, const @score b)
{
    volatile @score product = a * b;
    return product;
}
"""
_DENSE = """        for (k = 0; k < @@N_OUTPUTS; k++) {
            raw[k] = raw[k] + $term;
        }
"""
_NAMED = """        k = $named;
        raw[k] = raw[k] + $term;
"""
_EXTREME = """        for (k = 0; k < @@N_OUTPUTS; k++) {
            const @score part = $part;
            if (tree == 0 || !(raw[k] $relation part || raw[k] != raw[k])) {
                raw[k] = part;
            }
        }
"""
_LEAVES = """
/* The exit leaf of each tree, counted from its left: @@N_TREES numbers. */
static inline void @leaves(const @input *x, @leaf *leaf)
{
    uint32_t tree;
$declare$prepare    for (tree = 0; tree < @@N_TREES; tree++) {
        leaf[tree] = (@leaf)$leaf;
    }
}
"""
_RAW = """
/* The raw scores: @@N_OUTPUTS numbers, added tree by tree, in their order. */
static inline void @raw(const @input *x, @score *raw)
{
    uint32_t tree;
    uint32_t k;
$declare$vector$prepare    for (k = 0; k < @@N_OUTPUTS; k++) {
        raw[k] = $start;
    }
    for (tree = 0; tree < @@N_TREES; tree++) {
        const uint32_t leaf = $place;
$compute$body    }
$finish}
"""
