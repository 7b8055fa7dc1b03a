"""A forest as one header of C99 that routes and adds bit for bit as the reference does."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from bitvec.core import tree_paths
from bitvec.core.forest import Forest, require_forest
from bitvec.core.to_float32 import narrow_tests
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.binned_rows import binned_forest, bins_of
from bitvec.runtime.export.c.category_macros import add_categories
from bitvec.runtime.export.c.estimate import CSource, Estimate
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.levels import add_levels, fill, require_levels
from bitvec.runtime.export.c.literals import C_TYPES, comment, unsigned
from bitvec.runtime.export.c.node_conditions import add_conditions, conditions_of
from bitvec.runtime.export.c.output_functions import add_outputs, n_probabilities
from bitvec.runtime.export.c.post_transforms import needs_math
from bitvec.runtime.export.c.rank_code import add_ranks
from bitvec.runtime.export.c.raw_scores import add_scores, kept_shares, kept_sparse
from bitvec.runtime.export.c.sparse_leaves import MOST_AT_ONCE
from bitvec.runtime.export.c.tree_code import (
    Route,
    add_first_leaves,
    add_tables,
    add_unrolled,
    tree_by_tree,
)
from bitvec.runtime.export.c.unsupported import require_exact, require_options, require_ranked
from bitvec.runtime.export.c.whole_labels import add_share_label, add_whole_label
from bitvec.runtime.export.ranks import ranks
from bitvec.runtime.export.target_limits import without_missing

Form = Literal["tables", "levels", "unrolled"]
Thresholds = Literal["exact", "ranks"]


def to_c(
    forest: Forest,
    *,
    form: Form = "tables",
    name: str = "model",
    thresholds: Thresholds = "exact",
    finite: bool = False,
    input_dtype: DTypeLike | None = None,
    input: Literal["values", "bins"] = "values",
) -> CSource:
    """Return a forest as one header of C99, which needs no heap and no other file.

    Exit leaves and raw scores equal the reference's bit for bit, for every input. Probabilities
    and labels behind an exponential have the last places of the C library's own.

    Parameters
    ----------
    forest : Forest
        Any nodes but polytopes, any leaves; no prediction kernel, feature map or weighted median.
    form : "tables", "levels" or "unrolled"
        Nodes as tables, which is small; as tables of trees filled up to one depth of 8 at most,
        which a row goes down all at once, level by level: the fastest; or as nested if and else,
        for trees of 4096 nodes at most.
    name : str
        What all names in the header begin with, in small letters: headers of several forests go
        into one program.
    thresholds : "exact" or "ranks"
        With ranks a row is binned once, by the distinct thresholds of each column, and nodes
        compare small integers: the same answers, and floats are compared by the search alone. It
        takes fewer bytes only where each column has few thresholds and all together have many.
        Nodes that sum columns or look up a category have no rank; if all are such, it is refused.
    finite : bool
        Promise that no value is ever NaN, so that nodes need not say where it goes: `leaves` and
        `raw` are the reference's for all other rows. It saves bytes; of `levels` that read float32
        it saves time, for more bytes.
    input_dtype : numpy dtype, optional
        float32, where a forest of float64 is to read rows of float32, and to compare in it: each
        such row reaches the same leaves, and thresholds take half the bytes.
    input : "values" or "bins"
        With bins x holds bins, in 1 or 2 bytes, that `bins_of(forest)` of
        `bitvec.runtime.export.binned_rows` makes of a row: no float is compared on the device.

    Raises
    ------
    UnsupportedModelError
        If C cannot hold the forest exactly, or it is too large for the form.
    InputError
        If an option is none of these.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> source = to_c(stump, name="stump")
    >>> "static inline void stump_predict(const stump_input *x" in source.text
    True
    >>> print(source.estimate)
    7 bytes of constants in flash (2.3 per node, 7.0 per inner node),
    0 bytes of arrays on the stack, at most 1 comparisons per row
    """
    require_forest(forest)
    require_options(form, name, thresholds, input)
    forest, reads = _read(forest, form, input_dtype, input, finite=finite)
    header, route = _filled_header(forest, reads, name, form, thresholds, finite=finite)
    opening = Header(name)
    _add_opening(opening, forest, form, thresholds, reads, wide=header.has_double, finite=finite)
    header.code("#endif /* @@H */\n")
    return CSource(f"{opening.text}\n{header.text}", name, _estimate(header, forest, route))


SMALL: tuple[tuple[Form, Thresholds], ...] = (
    ("tables", "exact"),
    ("tables", "ranks"),
    ("levels", "exact"),
)
"""Forms among which the smallest is found; an unrolled one is code, not constants."""


def smallest(forest: Forest, *, name: str = "model") -> tuple[dict[str, str], Estimate]:
    """Return the options of `to_c` whose tables take the fewest bytes, and their estimate.

    Parameters
    ----------
    forest : Forest
        Its header reads rows of the dtype that the forest compares in.
    name : str

    Raises
    ------
    UnsupportedModelError
        If C cannot hold the forest exactly.

    Notes
    -----
    `Estimate.predict_bytes` is compared, the bytes of tables that a prediction reads; no text is
    written, so that it takes milliseconds.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> options, estimate = smallest(stump)
    >>> options, estimate.predict_bytes
    ({'form': 'levels', 'thresholds': 'exact'}, 4)
    """
    require_forest(forest)
    require_exact(forest, "tables")
    found: list[tuple[dict[str, str], Estimate]] = []
    for form, thresholds in SMALL:
        try:
            read, reads = _read(forest, form, None, "values", finite=False)
            header, route = _filled_header(read, reads, name, form, thresholds, finite=False)
        except (InputError, UnsupportedModelError):
            if form == "tables" and thresholds == "exact":
                raise
            continue
        options: dict[str, str] = {"form": form, "thresholds": thresholds}
        found.append((options, _estimate(header, read, route)))
    return min(found, key=lambda one: one[1].predict_bytes)


def _read(
    forest: Forest, form: Form, input_dtype: DTypeLike | None, input: str, *, finite: bool
) -> tuple[Forest, np.dtype]:
    """Return the forest as the header routes it, and the dtype of x."""
    require_exact(forest, form)
    if finite:
        forest = without_missing(forest)
    if form == "levels":
        require_levels(forest)
    forest = forest if input_dtype is None else _reading(forest, np.dtype(input_dtype))
    if input != "bins":
        return forest, forest.dtype
    bins = bins_of(forest)
    return binned_forest(forest, bins), bins.ranks.dtype


def _filled_header(
    forest: Forest,
    reads: np.dtype,
    name: str,
    form: Form,
    thresholds: Thresholds,
    *,
    finite: bool,
) -> tuple[Header, Route]:
    """Return all of a header but its opening, and the route through it."""
    header = Header(name)
    if form == "levels":
        route, whole = _add_levels(header, forest, reads, finite=finite)
        add_outputs(header, forest.output, whole)
        return header, route
    found = ranks(forest) if thresholds == "ranks" else None
    require_ranked(forest, found, thresholds)
    conditions = conditions_of(forest, found, reads)
    add_first_leaves(header, forest)
    add_conditions(header, forest, conditions)
    if found is not None:
        add_ranks(header, forest, found)
    (add_tables if form == "tables" else add_unrolled)(header, forest, conditions)
    route = tree_by_tree(found)
    add_scores(header, forest, route, kept_sparse(forest, None, at_once=1))
    add_outputs(header, forest.output)
    return header, route


def _add_levels(
    header: Header, forest: Forest, reads: np.dtype, *, finite: bool
) -> tuple[Route, str]:
    """Append trees of one depth and their scores; return the route and lines of some labels."""
    filled = fill(forest)
    places = filled.leaves.ravel()
    shares = kept_shares(forest, places, at_once=MOST_AT_ONCE)
    levels = add_levels(header, forest, filled, reads, finite=finite, shares=shares)
    if shares is not None:
        add_shares = partial(shares.add, header, levels.leaf_vector)
        add_scores(header, forest, levels.route, None, add_shares)
        return levels.route, add_share_label(header, levels, shares)
    sparse = kept_sparse(forest, places, at_once=MOST_AT_ONCE)
    add_scores(header, forest, levels.route, sparse)
    if sparse is None:
        return levels.route, ""
    return levels.route, add_whole_label(header, forest, levels.route, sparse)


def _reading(forest: Forest, dtype: np.dtype) -> Forest:
    """Return the forest that reads rows of this dtype."""
    if dtype not in (np.float32, forest.dtype):
        raise InputError(
            f"`input_dtype` must be float32, or the {forest.dtype} that the forest compares in, "
            f"got {dtype}: leave it out."
        )
    return forest if dtype == forest.dtype else narrow_tests(forest)


def _estimate(header: Header, forest: Forest, route: Route) -> Estimate:
    output, leaves = forest.output, forest.leaves
    stack = route.stack_bytes
    if leaves.linear is not None:
        stack += leaves.v.shape[1] * leaves.v.itemsize
    if output.is_classifier:
        stack += output.n_outputs * output.dtype.itemsize
    deepest = int(tree_paths.tree_depth(forest.bitvectors).sum())
    most = route.most_comparisons + (deepest if route.leaf_of_place is None else 0)
    return Estimate(
        constant_bytes=header.constant_bytes,
        leaf_bytes=header.leaf_bytes,
        stack_bytes=stack,
        most_comparisons=most,
        n_nodes=forest.n_nodes,
        n_leaves=forest.n_leaves,
    )


def _add_opening(
    header: Header,
    forest: Forest,
    form: Form,
    thresholds: Thresholds,
    reads: np.dtype,
    *,
    wide: bool,
    finite: bool,
) -> None:
    """Append all that stands in front of the code.

    `reads` is the dtype of x; `wide` says whether the code has a double.
    """
    output = forest.output
    header.code(
        _OPENING,
        summary=comment(repr(forest)),
        form=form,
        thresholds=thresholds,
        rows="   x holds bins, not values.\n" if reads.kind == "u" else "",
        aggregate=output.aggregate.value,
        transform=output.post_transform.value,
        math=_MATH_NOTE if needs_math(output) else "",
    )
    if wide or np.float64 in (forest.dtype, output.dtype):
        header.code(_DOUBLE)
    largest = int(np.diff(forest.bitvectors.leaf_ptr).max())
    if finite:
        header.code("/* No value of x may be NaN. */\n#define @@FINITE 1\n")
    counts = {
        "N_FEATURES": forest.n_features,
        "N_OUTPUTS": output.n_outputs,
        "N_TREES": forest.n_trees,
    }
    if output.classes is not None:
        counts["N_TARGETS"] = len(output.classes)
        counts["N_PROBABILITIES"] = n_probabilities(output)
        if len(output.classes) == 1:
            counts["N_CLASSES"] = output.classes[0].size
    header.code("".join(f"#define @@{word} {count}\n" for word, count in counts.items()))
    header.code(
        _TYPES,
        input=C_TYPES[reads],
        score=C_TYPES[output.dtype],
        leaf=C_TYPES[unsigned(largest - 1)],
    )
    names = forest.inputs.feature_names
    if names is not None:
        lines = [f"     {column}  {comment(word)}" for column, word in enumerate(names)]
        header.plain("/* The columns of x:\n" + "\n".join(lines) + " */")
    add_categories(header, forest.inputs)


_MATH_NOTE = """
   Define @@NO_MATH to leave out all that needs <math.h>; raw scores and leaves remain.
"""
_OPENING = """
/* $summary
   Written by bitvec, https://pypi.org/project/bitvec-trees; form $form, thresholds $thresholds.
$rows   Aggregate $aggregate, post-transform $transform.

   Exit leaves and raw scores equal those of bitvec bit for bit, for every x: NaN, infinities,
   signed zeros and subnormal numbers included. They do so under the arithmetic of IEEE 754 alone:
   no -ffast-math or parts of it, no flushing of subnormal numbers to zero, no wider registers.
   Products that are added are volatile, so that -ffp-contract=fast changes nothing.
$math   C99, or C++17. Nothing is allocated, nothing is written but what is handed in. */
#ifndef @@H
#define @@H

#include <stddef.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || defined(__ASSOCIATIVE_MATH__) || \\
    defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__) || \\
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "this header needs the arithmetic of IEEE 754: compile it without -ffast-math and -Ofast"
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 2 || __FLT_EVAL_METHOD__ < 0)
#error "this header needs sums in float and double: compile it with -msse2 -mfpmath=sse"
#endif
"""
_DOUBLE = """
#include <float.h>
#if DBL_MANT_DIG != 53
#error "this header needs a double of 64 bits: avr-gcc has one with -mdouble=64"
#endif
/* A constant without a suffix is a double too: not so with -fsingle-precision-constant. */
typedef char @this_header_needs_constants_of_64_bits[sizeof(1.0) == 8 ? 1 : -1];
"""
_TYPES = """
/* What x holds; values of another type are cast to it first. */
typedef $input @input;
typedef $score @score;
/* The number of a leaf within its tree, from the left. */
typedef $leaf @leaf;
"""
