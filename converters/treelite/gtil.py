"""treelite models (format 4), lifted with the semantics of GTIL, treelite's own inference.

GTIL compares and adds in the model's one dtype, tree by tree from 0; then it divides an average by
the number of trees that answer for an output and adds the base scores in float64, rounding once. A
test that holds goes to the left child, so `>`, `>=`, `==` and category lists of the left child
change the children's sides.

A model object is trusted to be one that treelite built; a checkpoint file (.tl, .treelite) is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int64, UInt32

from bitvec import structure
from bitvec.arrays import Array, ranges
from bitvec.converters.category_sets import pack
from bitvec.converters.treelite.checkpoint import require_whole
from bitvec.converters.treelite.model import (
    BINARY,
    CATEGORICAL,
    EQ,
    GE,
    GT,
    LEAF,
    LT,
    MULTICLASS,
    NUMERICAL,
    STATISTICS,
    TASKS,
    Header,
    gather,
    read_header,
)
from bitvec.errors import (
    FileFormatError,
    InputError,
    InvalidForestError,
    MissingLibraryError,
    UnsupportedModelError,
)
from bitvec.forest import Forest
from bitvec.inputs import Inputs
from bitvec.leaves import Leaves
from bitvec.node_tests import CodeRule, Kind, NodeTests, Relation, axis_aligned
from bitvec.output import Aggregate, Output, PostTransform
from bitvec.source import Source
from bitvec.subject import LeafValues, Subject

try:
    import treelite
except ImportError as error:
    raise MissingLibraryError("treelite", "treelite", "lifting a treelite model") from error

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

Model: TypeAlias = treelite.Model | str | PathLike[str]


def load(path: str | PathLike[str]) -> treelite.Model:
    """Read a checkpoint, the file that `treelite.Model.serialize` writes.

    treelite's own `deserialize` believes the lengths that a file states, so the file is checked to
    be whole first.

    Raises
    ------
    FileFormatError
        If it is no checkpoint of treelite 4, or not whole.
    OSError
        If it cannot be read.
    """
    with _naming(path):
        return _read(path)


def convert(model: Model) -> Forest:
    """Lift a treelite model, wherever it was imported from.

    Parameters
    ----------
    model : treelite.Model, or path of a checkpoint

    Returns
    -------
    Forest
        In the model's dtype, with one output group per target. A classifier's labels are 0, 1, ...
        since treelite keeps none; a binary classifier whose scores are no probabilities (margins
        without a transform) becomes a regressor of its margin.

    Raises
    ------
    UnsupportedModelError
        If GTIL's answer cannot be reproduced exactly.
    InvalidForestError
        If the model's arrays do not describe trees.
    FileFormatError
        If a file is no checkpoint, or not whole.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ExtraTreesClassifier(10, max_leaf_nodes=3, random_state=0).fit(X, y)
    >>> convert(treelite.sklearn.import_model(model))
    Forest(10 trees, 20 nodes, 30 leaves, 4 features -> 3 outputs, float64, from treelite)
    """
    with _naming(model):
        return _forest(_opened(model))


@contextmanager
def _naming(model: Any) -> Iterator[None]:
    """Put the name of a file in front of messages about it."""
    try:
        yield
    except (FileFormatError, InvalidForestError, UnsupportedModelError) as error:
        if not isinstance(model, str | PathLike):
            raise
        raise type(error)(f"{fspath(model)}: {error}") from error


def _opened(model: Any) -> treelite.Model:
    if isinstance(model, str | PathLike):
        return _read(model)
    if isinstance(model, treelite.Model):
        return model
    raise UnsupportedModelError(
        f"the model must be a treelite.Model or the path of a checkpoint, got "
        f"{type(model).__name__}: import it with treelite.frontend first."
    )


def _read(path: str | PathLike[str]) -> treelite.Model:
    data = Path(path).read_bytes()
    require_whole(data)
    try:
        return treelite.Model.deserialize_bytes(data)
    except treelite.TreeliteError as error:
        raise FileFormatError(
            f"treelite {treelite.__version__} must be able to read the checkpoint, got: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _forest(model: treelite.Model) -> Forest:
    header = read_header(model)
    nodes, start = gather(model, header)
    shift = np.repeat(start[:-1], np.diff(start))
    swapped = _swapped(nodes)
    cleft, cright = (
        np.where(nodes["node_type"] == LEAF, -1, nodes[side] + shift)
        for side in ("cleft", "cright")
    )
    bitvectors, order = structure.arrange(
        np.where(swapped, cright, cleft), np.where(swapped, cleft, cright), start[:-1]
    )
    tree_of_leaf = np.repeat(np.arange(bitvectors.n_trees), np.diff(bitvectors.leaf_ptr))
    statistics = {name: nodes[name] for name in STATISTICS if name in nodes}
    cover = statistics.get("sum_hess", statistics.get("data_count"))
    gain = statistics.get("gain")
    source = Source(
        "treelite",
        treelite.__version__,
        f"{TASKS[header.task]}, {header.postprocessor}",
        leaf_id=order.leaf - shift[order.leaf],
        node_id=order.node - shift[order.node],
        leaf_cover=None if cover is None else cover[order.leaf],
        node_cover=None if cover is None else cover[order.node],
        gain=None if gain is None else gain[order.node],
        metadata=_metadata(model, header),
    )
    return Forest(
        _tests(nodes, order.node, swapped, header),
        bitvectors,
        _leaves(nodes, order.leaf, tree_of_leaf, header),
        _output(header),
        Inputs(header.n_features, absent_is_missing=True),
        source,
    )


def subject(model: Model) -> Subject:
    """Return the model, as GTIL with one thread answers for it.

    GTIL gives probabilities and leaves the label to its caller: here it is the number of the
    largest, or of a single one whether it exceeds one half. Leaf values are read from the model.

    Raises
    ------
    UnsupportedModelError, InvalidForestError, FileFormatError
        As `convert`: nothing is run before the model is known to be sound.
    """
    with _naming(model):
        opened = _opened(model)
        lifted = _forest(opened)
        header = read_header(opened)
    source = lifted.source
    assert source is not None
    assert source.leaf_id is not None
    tree = np.repeat(np.arange(lifted.n_trees), np.diff(lifted.bitvectors.leaf_ptr))
    stored = LeafValues(tree, source.leaf_id, lifted.leaves.v)

    def checked(X: Array) -> Array:
        if X.ndim != 2 or X.shape[1] != header.n_features:
            raise InputError(
                f"`X` must have {header.n_features} features, got shape {X.shape}: pass the "
                "training columns."
            )
        rows: Array = np.ascontiguousarray(X, header.dtype)
        return rows

    def answer(X: Array, **kind: bool) -> Array:
        answers: Array = treelite.gtil.predict(opened, checked(X), nthread=1, **kind)
        return answers.reshape(len(X), len(header.num_class), -1)

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        margin: Array = answer(X, pred_margin=True)[:, header.is_output]
        return margin

    def scores(X: Array) -> Float[Array, "batch n_outputs"]:
        transformed: Array = answer(X)[:, header.is_output]
        return transformed

    def labels(X: Array) -> Array:
        if header.postprocessor == "max_index":
            return answer(X)[:, :, 0].astype(np.int64)
        answers = answer(X)
        columns = [
            answers[:, t, 0] > 0.5
            if header.task == BINARY and size == 1
            else answers[:, t, :size].argmax(axis=1)
            for t, size in enumerate(header.num_class)
        ]
        return np.stack(columns, axis=1).astype(np.int64)

    def leaf_ids(X: Array) -> Int64[Array, "batch n_trees"]:
        ids: Array = treelite.gtil.predict_leaf(opened, checked(X), nthread=1).astype(np.int64)
        return ids

    transforms = header.postprocessor != "max_index"
    classifies = lifted.output.classes is not None
    return Subject(
        "treelite",
        treelite.__version__,
        raw,
        leaf_ids,
        ids="source",
        predict=labels if classifies else scores,
        scores=scores if classifies and transforms else None,
        leaf_values=lambda: stored,
        n_trees=lifted.n_trees,
        n_features=header.n_features,
        n_outputs=header.n_outputs,
    )


def _swapped(nodes: dict[str, Array]) -> Array:
    """Tell the nodes whose left child is the one that a true test of ours must reach."""
    matched_left = nodes["category_list_right_child"] == 0
    turned = np.isin(nodes["cmp"], (EQ, GT, GE))
    swapped: Array = np.where(
        nodes["node_type"] == CATEGORICAL,
        matched_left,
        (nodes["node_type"] == NUMERICAL) & turned,
    )
    return swapped


def _tests(nodes: dict[str, Array], node: Array, swapped: Array, header: Header) -> NodeTests:
    cmp = nodes["cmp"][node]
    is_set = nodes["node_type"][node] == CATEGORICAL
    set_ptr, set_words = _sets(nodes, node[is_set], is_set, header)
    return axis_aligned(
        nodes["split_index"][node],
        np.where(is_set, 0, nodes["threshold"][node]).astype(header.dtype),
        relation=np.where(
            np.isin(cmp, (LT, GE)) & ~is_set, Relation.GREATER_EQUAL, Relation.GREATER
        ),
        missing_right=(nodes["default_left"][node] != 0) == swapped[node],
        kind=np.where(is_set, Kind.SET, np.where(cmp == EQ, Kind.EQUAL, Kind.MARGIN)),
        code_rule=CodeRule.FLOOR,
        set_ptr=set_ptr,
        set_words=set_words,
    )


def _sets(
    nodes: dict[str, Array], node: Array, is_set: Array, header: Header
) -> tuple[Int64[Array, " n_plus_1"], UInt32[Array, " n_words"]]:
    """Pack the category lists; a listed code goes right, any other value left.

    GTIL reads a value x >= 0 as the code floor(x), unless x is so large that its dtype (or uint32)
    no longer holds every whole number; a code beyond that is never matched.
    """
    begin = nodes["category_list_begin"][node]
    count = nodes["category_list_end"][node] - begin
    code = nodes["category_list"][ranges(begin, count)].astype(np.int64)
    owner = np.repeat(np.flatnonzero(is_set), count)
    reachable = code <= (1 << 24 if header.dtype == np.float32 else (1 << 32) - 1)
    return pack(code[reachable], owner[reachable], is_set.size)


def _leaves(
    nodes: dict[str, Array], leaf: Array, tree: Int64[Array, " n_leaves"], header: Header
) -> Leaves:
    """Return the leaf values: one column where each tree names its output, else one per output."""
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
    values = np.concatenate([nodes["leaf_value"], nodes["leaf_vector"]]).astype(header.dtype)
    # Where a leaf's values begin: behind all scalars, or its own scalar.
    at = np.where(length > 0, nodes["leaf_value"].size + begin, leaf)
    first = header.first_output
    if np.all(one):
        output = (first[np.maximum(target, 0)] + np.maximum(class_id, 0)).astype(np.int32)
        v = values[at][:, None]
        return Leaves(v) if header.n_outputs == 1 else Leaves(v, output)
    if leaf.size * header.n_outputs > PADDING * values.size:
        raise UnsupportedModelError(
            f"leaf vectors must be about as many as stored, got {values.size} values that would be "
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


def _output(header: Header) -> Output:
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


def _metadata(model: treelite.Model, header: Header) -> dict[str, Any]:
    text = model.get_header_accessor().get_field("attributes")
    try:
        attributes = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):  # no JSON, or nested without end
        attributes = {}
    return {
        "task_type": TASKS[header.task],
        "postprocessor": header.postprocessor,
        "attributes": attributes,
    }
