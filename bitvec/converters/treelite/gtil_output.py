"""Leaves and answers of a treelite model, as GTIL gives them."""

from __future__ import annotations

import numpy as np

from bitvec.converters.treelite.model import BINARY, MULTICLASS, Header
from bitvec.core.arrays import Array
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.shape_annotations import Float, Int64
from bitvec.errors import UnsupportedModelError

_POST_TRANSFORM = {
    "identity": PostTransform.IDENTITY,
    "identity_multiclass": PostTransform.IDENTITY,
    "max_index": PostTransform.IDENTITY,  # the label of the largest score: what `predict` returns
    "signed_square": PostTransform.SIGNED_SQUARE,
    "hinge": PostTransform.HINGE,
    "sigmoid": PostTransform.SIGMOID,
    "multiclass_ova": PostTransform.SIGMOID,
    "exponential": PostTransform.EXPONENTIAL,
    "exponential_standard_ratio": PostTransform.EXPONENTIAL_STANDARD_RATIO,
    "logarithm_one_plus_exp": PostTransform.LOGARITHM_ONE_PLUS_EXP,
    "softmax": PostTransform.SOFTMAX,
}
PADDING = 8
"""Leaf vectors may grow this much by the zeros of outputs that a tree does not answer for."""


def leaves(
    nodes: dict[str, Array], leaf: Array, tree: Int64[Array, " n_leaves"], header: Header
) -> Leaves:
    """Return the leaf values: one column where each tree names its output, else one per output.

    Parameters
    ----------
    nodes : dict of arrays
        As `bitvec.converters.treelite.model.gather` returns them.
    leaf : int64, (n_leaves,)
        Positions of the leaves among them.
    tree : int64, (n_leaves,)

    Raises
    ------
    UnsupportedModelError
        If leaf vectors are not shaped as the model says, or are mostly padding.
    """
    begin = nodes["leaf_vector_begin"][leaf]
    length = nodes["leaf_vector_end"][leaf] - begin
    target, class_id = header.target[tree], header.class_id[tree]
    # A vector holds (targets or 1) x (largest number of classes or 1) values, row by row.
    n_rows = np.where(target < 0, header.num_class.size, 1)
    n_columns = np.where(class_id < 0, header.max_class, 1)
    one = n_rows * n_columns == 1
    scalar = (length == 0) & (target >= 0) & (class_id >= 0)
    shaped = (n_rows == header.leaf_shape[0]) & (n_columns == header.leaf_shape[1])
    if not np.all(scalar | (shaped & (length == n_rows * n_columns))):
        raise UnsupportedModelError(
            "each leaf must hold one value per target and class that its tree answers for, got "
            "leaves of another shape, for which GTIL has no answer either: build the model with "
            "the leaf vectors that `leaf_vector_shape` names."
        )
    values, at = _values(nodes, leaf, begin, length)
    values = values.astype(header.dtype, copy=False)
    first = header.first_output
    if np.all(one):
        output = (first[np.maximum(target, 0)] + np.maximum(class_id, 0)).astype(np.int32)
        v = values[at][:, None]
        return Leaves(v) if header.n_outputs == 1 else Leaves(v, output)
    stored = nodes["leaf_value"].size + nodes["leaf_vector"].size
    if leaf.size * header.n_outputs > PADDING * stored:
        raise UnsupportedModelError(
            f"leaf vectors must be about as many as stored, got {stored} values that would be "
            f"{leaf.size} leaves x {header.n_outputs} outputs: let each tree name its output."
        )
    # The zeros of outputs that a tree does not answer for leave a sum that began at +0 as it is.
    v = np.zeros((leaf.size, header.n_outputs), header.dtype)
    for t, size in enumerate(header.num_class):
        for c in range(size):
            speaks = ((target < 0) | (target == t)) & ((class_id < 0) | (class_id == c))
            row = np.where(target < 0, t, 0)
            column = np.where(class_id < 0, c, 0)
            place = at + row * n_columns + column
            v[speaks, first[t] + c] = values[place[speaks]]
    return Leaves(v)


def _values(
    nodes: dict[str, Array], leaf: Array, begin: Array, length: Array
) -> tuple[Array, Int64[Array, " n_leaves"]]:
    """Return stored values, and where those of each leaf begin: its vector, or its own scalar."""
    scalars, vectors = nodes["leaf_value"], nodes["leaf_vector"]
    if not np.any(length):
        return scalars, leaf
    if np.all(length):
        return vectors, begin
    return np.concatenate([scalars, vectors]), np.where(length > 0, scalars.size + begin, leaf)


def output(header: Header) -> Output:
    """Return how the trees' leaves become an answer.

    Raises
    ------
    UnsupportedModelError
        If the postprocessor is unknown, or an average has no trees.
    """
    name = header.postprocessor
    if name not in _POST_TRANSFORM:
        raise UnsupportedModelError(
            f"the postprocessor must be one of {', '.join(_POST_TRANSFORM)}, got {name!r}: set it "
            'with model.get_header_accessor().set_field("postprocessor", ...).'
        )
    base = header.base_scores.reshape(header.is_output.shape)[header.is_output]
    rounded = base.astype(header.dtype)
    exact = np.array_equal(rounded, base, equal_nan=True)
    return Output(
        header.n_outputs,
        header.dtype,
        aggregate=Aggregate.MEAN if header.average else Aggregate.SUM,
        base_score=rounded if exact else base,
        post_transform=_POST_TRANSFORM[name],
        parameter=header.parameter,
        classes=_labels(header),
        groups=tuple(header.num_class.tolist()),
        divisor=_trees_per_output(header) if header.average else None,
    )


def _trees_per_output(header: Header) -> Float[Array, " n_outputs"]:
    """Return what GTIL divides each output by: the number of trees that answer for it."""
    n_targets, max_class = header.is_output.shape
    count = np.zeros((n_targets + 1, max_class + 1), np.int64)
    np.add.at(count, (header.target, header.class_id), 1)  # -1, all, is the last row or column
    total = count[:-1, :-1] + count[-1:, :-1] + count[:-1, -1:] + count[-1, -1]
    divisor = total[header.is_output]
    if not np.all(divisor):
        raise UnsupportedModelError(
            "an averaged model must have a tree for every output, got none for "
            f"{np.count_nonzero(divisor == 0)} of {divisor.size}: an average of none is no number."
        )
    return divisor.astype(header.dtype)


def _labels(header: Header) -> tuple[Array, ...] | None:
    if header.task not in (BINARY, MULTICLASS):
        return None
    # Without a transform a single output is a probability only if it is an average.
    margin = header.postprocessor == "identity" and not header.average
    if margin and np.any(header.num_class == 1):
        return None
    # The single output of a binary target speaks for its second class.
    least = 2 if header.task == BINARY else 1
    return tuple(np.arange(max(int(size), least)) for size in header.num_class)
