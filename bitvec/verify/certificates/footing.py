"""Conditions of a comparison: sizes that fit, rows that both accept, ids, a bound on rounding."""

from __future__ import annotations

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import COLUMN_LISTS, Inputs
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Int
from bitvec.errors import InputError
from bitvec.verify.certificates.difference import Difference
from bitvec.verify.oracle import Oracle

ROUNDINGS = 6
"""Roundings of a term besides its additions, at most: leaf, weight and their product; divisor or
scale, and the quotient or product with it; the sum with the base score."""

LETTERS = 200
"""Characters shown of a name or a code book."""


def require_same_sizes(forest: Forest, oracle: Oracle) -> None:
    """Refuse a model of another size before it is asked anything.

    Raises
    ------
    InputError
    """
    for name in ("trees", "features", "outputs"):
        own, other = getattr(forest, f"n_{name}"), getattr(oracle, f"n_{name}")
        if other is not None and other != own:
            raise InputError(
                f"the {oracle.name} model must have as many {name} as the forest, {own}, got "
                f"{other}: pass the model that the forest was converted from or exported to."
            )


def rounding_bound(forest: Forest, *dtypes: np.dtype) -> float | None:
    """Return how far rounding can bring raw scores apart, one added in each of these dtypes.

    None for forests whose leaf values depend on x (linear leaves), and where the sum of magnitudes
    is no number.

    Notes
    -----
    A sum of n terms, each a product of k rounded factors or quotients, is within
    γ = (n + k)·u/(1 − (n + k)·u) of sum|terms| of its true value in every order, u the unit
    roundoff (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1 and 4.2). The division
    of a mean divides the magnitudes by what it divides the sum, and rounds once more; the base
    score comes after it, undivided. Both sides err, each with its own u.

    Where a prediction kernel is there, a tree is a sum over its leaves, whose memberships sum to 1;
    to the rounding of that sum comes the one of the memberships, see `_membership_steps`.
    """
    if forest.leaves.linear is not None:
        return None
    output, B, v = forest.output, forest.bitvectors, np.abs(forest.leaves.v.astype(np.float64))
    v[~np.isfinite(v)] = 0
    largest = _by_tree(forest, np.maximum, v)
    n_terms, magnitude = np.count_nonzero(largest, axis=0), _scaled(forest, largest)
    if output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):  # one of the terms is chosen
        n_terms = np.ones(output.n_outputs)
    memberships = np.zeros(output.n_outputs)
    if forest.kernel is not None:
        n_terms = n_terms + int(np.diff(B.leaf_ptr).max(initial=0))
        memberships = _scaled(forest, _by_tree(forest, np.add, v * _membership_steps(forest)))
    magnitude = magnitude + np.abs(output.base_score.astype(np.float64))
    units = [float(np.finfo(dtype).eps) / 2 for dtype in dtypes]
    steps = [(n_terms + ROUNDINGS) * unit for unit in units]
    if not np.all(np.isfinite(magnitude)) or any(np.any(step >= 1) for step in steps):
        return None
    of_sums = sum(step / (1 - step) for step in steps) * magnitude
    return float(max(of_sums + sum(units) * memberships))


def _by_tree(forest: Forest, add: np.ufunc, value: Array) -> Array:
    """Return what the leaves of each tree come to, for each output: (n_trees, n_outputs).

    Leaves that are infinite or NaN count as 0: no rounding makes a number of them.
    """
    B = forest.bitvectors
    found = np.zeros((B.n_trees, forest.n_outputs))
    tree = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
    if forest.leaves.output is None:
        add.at(found, tree, value)
    else:
        add.at(found, (tree, forest.leaves.output), value[:, 0])
    return found


def _scaled(forest: Forest, by_tree: Array) -> Array:
    """Return the sum over trees, each weighted, divided and scaled as the forest does it."""
    output = forest.output
    if output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        chosen: Array = by_tree.max(axis=0, initial=0.0)
        return chosen
    if output.tree_weight is not None:
        by_tree = by_tree * np.abs(output.tree_weight.astype(np.float64))[:, None]
    total: Array = by_tree.sum(axis=0)
    if output.scale is not None:
        total *= np.abs(output.scale.astype(np.float64))
    if output.aggregate is Aggregate.MEAN and len(by_tree):
        total /= len(by_tree) if output.divisor is None else np.abs(output.divisor.astype(float))
    return total


def _membership_steps(forest: Forest) -> Array:
    """Return how many u the membership of each leaf may err by: (n_leaves, 1).

    F at a threshold is interpolated at (t − x) / h, which has two roundings, so it errs by ρ·E·2u
    for a density of at most ρ over edges of at most E, and by 6u of its own. A membership is a
    product of at most a difference of two F for each node above the leaf, none above 1; twice that
    is granted to another order, such as a product of shares along the path.
    """
    assert forest.kernel is not None
    steepest = 0.0
    for kernel in forest.kernel:
        if kernel is not None:
            density = float((kernel.mass / np.diff(kernel.edges)).max())
            steepest = max(steepest, density * float(np.abs(kernel.edges).max()))
    factor = 2 * (2 * (2 * steepest + 6) + 2)
    steps: Array = factor * tree_paths.leaf_depth(forest.bitvectors)[:, None]
    return steps


def accepted_rows(forest: Forest, oracle: Oracle, X: Array | None) -> tuple[Array, int]:
    """Return the rows of X that the oracle accepts, cast, and how many it does not."""
    if X is None:
        return np.zeros((0, forest.n_features), forest.dtype), 0
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != forest.n_features or X.dtype.kind not in "biuf":
        raise InputError(
            f"`X` must be numbers of shape (n, {forest.n_features}), got {X.dtype} of shape "
            f"{X.shape}: pass the training columns."
        )
    with np.errstate(over="ignore"):
        X = X.astype(forest.dtype)
    accepted = forest.inputs.takes(X)
    if not oracle.accepts_missing:
        accepted &= ~np.isnan(X).any(axis=1)
    if not oracle.accepts_infinite:
        accepted &= ~np.isinf(X).any(axis=1)
    return X[accepted], int(np.sum(~accepted))


def columns_differ(forest: Forest, source: Inputs) -> tuple[Difference, ...]:
    """Return where a forest reads other columns or codes out of a data frame than its source.

    A source without names takes columns by position; of columns that no test reads the names count
    alone. What becomes of unseen categories is the user's choice.
    """
    theirs, own = _columns(forest, source), _columns(forest, forest.inputs)
    pairs = [(what, expected, own[what]) for what, expected in theirs.items()]
    if source.feature_names is not None:
        pairs += _names(source.feature_names, forest)
    return _differences(pairs)


def names_differ(forest: Forest, names: tuple[str, ...]) -> tuple[Difference, ...]:
    """Return which columns of a named forest an exported file calls by other names."""
    if forest.inputs.feature_names is None:
        return ()
    if len(names) != forest.n_features:
        return _differences([("the number of names of columns", len(names), forest.n_features)])
    return _differences(_names(names, forest))


def _names(names: tuple[str, ...], forest: Forest) -> list[tuple[str, object, object]]:
    own = forest.inputs.feature_names or (None,) * len(names)
    named = enumerate(zip(names, own, strict=True))
    return [(f"column {k}'s name", *pair) for k, pair in named]


def _differences(pairs: list[tuple[str, object, object]]) -> tuple[Difference, ...]:
    return tuple(
        Difference("structure", 0, f"{what} {a!r}"[:LETTERS], f"{what} {b!r}"[:LETTERS], ())
        for what, a, b in pairs
        if repr(a) != repr(b)
    )


def _columns(forest: Forest, inputs: Inputs) -> dict[str, object]:
    """Return what decides which codes and entries a column has that some test reads."""
    found: dict[str, object] = {"absent_is_missing": inputs.absent_is_missing}
    for k in np.unique(forest.tests.column).tolist():
        found[f"column {k}'s categories"] = inputs.book(k)
        for rule in COLUMN_LISTS:
            found[f"column {k} among {rule}"] = k in getattr(inputs, rule)
    return found


def numbering(forest: Forest, oracle: Oracle) -> Int[Array, " n_leaves"]:
    """Return the oracle's id of each leaf.

    Raises
    ------
    InputError
        If the oracle answers with the source's ids and the forest does not hold them.
    """
    B, source = forest.bitvectors, forest.source
    if oracle.ids == "source" and oracle.leaf_ids is not None:
        if source is None or source.leaf_id is None:
            raise InputError(
                f"a forest compared with {oracle.name} must hold its leaf ids in "
                "`source.leaf_id`, got none: convert the model anew."
            )
        return source.leaf_id
    within: Array = np.arange(B.n_leaves) - np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    return within
