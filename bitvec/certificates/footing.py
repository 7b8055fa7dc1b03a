"""What a comparison stands on: sizes that fit, rows that both accept, ids, a bound on rounding."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.forest import Forest
from bitvec.subject import Subject


def require_same_sizes(forest: Forest, subject: Subject) -> None:
    """Refuse a model of another size before it is asked anything.

    Raises
    ------
    InputError
    """
    for name in ("trees", "features", "outputs"):
        own, other = getattr(forest, f"n_{name}"), getattr(subject, f"n_{name}")
        if other is not None and other != own:
            raise InputError(
                f"the {subject.name} model must have as many {name} as the forest, {own}, got "
                f"{other}: pass the model that the forest was lifted from or exported to."
            )


def rounding_bound(forest: Forest, dtype: np.dtype) -> float | None:
    """Return how far two orders of summation in `dtype` can bring raw scores apart.

    None for forests whose leaf values depend on x (linear leaves, a prediction kernel).

    Notes
    -----
    A sum of n terms is within (n − 1)·eps/(1 − n·eps) · sum|terms| of its true value in every order
    (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2, with eps twice the unit
    roundoff); each product with a tree weight, the division of a mean and the base score add one
    rounding each, and both sides may err.
    """
    if forest.leaves.linear is not None or forest.kernel is not None:
        return None
    output, B = forest.output, forest.bitvectors
    assert output.base_score is not None
    largest = np.abs(forest.leaves.v.astype(np.float64)).max(axis=1, initial=0.0)
    per_tree = np.maximum.reduceat(largest, B.leaf_ptr[:-1]) if B.n_trees else np.zeros(0)
    if output.tree_weight is not None:
        per_tree = per_tree * np.abs(output.tree_weight.astype(np.float64))
    total = float(per_tree.sum()) + float(np.abs(output.base_score).max())
    steps = (B.n_trees + 4) * float(np.finfo(dtype).eps)
    return 2 * steps / (1 - steps) * total if steps < 1 else None


def accepted_rows(forest: Forest, subject: Subject, X: Array | None) -> tuple[Array, int]:
    """Return the rows of X that the subject accepts, cast, and how many it does not."""
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
    accepted = np.ones(len(X), bool)
    if not subject.accepts_missing:
        accepted &= ~np.isnan(X).any(axis=1)
    if not subject.accepts_infinite:
        accepted &= ~np.isinf(X).any(axis=1)
    return X[accepted], int(np.sum(~accepted))


def numbering(forest: Forest, subject: Subject) -> Int[Array, " n_leaves"]:
    """Return the subject's id of each leaf.

    Raises
    ------
    InputError
        If the subject answers with the source's ids and the forest does not hold them.
    """
    B, source = forest.bitvectors, forest.source
    if subject.ids == "source" and subject.leaf_ids is not None:
        if source is None or source.leaf_id is None:
            raise InputError(
                f"a forest compared with {subject.name} must hold its leaf ids in "
                "`source.leaf_id`, got none: convert the model anew."
            )
        return source.leaf_id
    within: Array = np.arange(B.n_leaves) - np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    return within
