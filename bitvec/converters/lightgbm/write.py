"""Write a forest as a LightGBM model text, where LightGBM can hold it exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec.converters.lightgbm.objective_links import link_of, objective_text
from bitvec.converters.lightgbm.trees import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_SHIFT,
    MISSING_ZERO,
)
from bitvec.converters.lightgbm.unsupported import base_score64, require_writable, strict_thresholds
from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Int64
from bitvec.core.structure import children
from bitvec.errors import UnsupportedModelError, needs
from bitvec.files import atomic
from bitvec.files.atomic import StrPath

VERSION: Final = "v4"


def to_lightgbm(forest: Forest) -> Any:
    """Return a forest as a Booster of the text that `to_text` makes.

    Returns
    -------
    lightgbm.Booster

    Raises
    ------
    UnsupportedModelError
        If LightGBM cannot hold the forest exactly; the message says what and why.
    MissingLibraryError
        If lightgbm is not installed.

    Examples
    --------
    >>> booster = to_lightgbm(forest)  # doctest: +SKIP
    """
    with needs("lightgbm", "lightgbm", "Making a Booster"):
        import lightgbm
    return lightgbm.Booster(model_str=to_text(forest))


def save(forest: Forest, path: StrPath) -> Path:
    """Write a forest as a text file of LightGBM, which replaces a file that is there.

    Raises
    ------
    UnsupportedModelError
        As `to_lightgbm`.
    """
    return atomic.write(path, to_text(forest).encode())


def to_text(forest: Forest) -> str:
    """Return the text of a LightGBM model that predicts what the forest predicts.

    It is made without the library. On dense float rows, raw scores are equal bit for bit, and
    `predict` answers with the forest's post-transform. A forest that was converted from LightGBM
    keeps its node and leaf ids. A base score becomes an iteration of constant trees. Labels of
    classes are not held by a Booster.

    Raises
    ------
    UnsupportedModelError
        If LightGBM cannot hold the forest exactly; the message says what and why.
    """
    require_writable(forest)
    trees = [*_trees(forest)]
    blocks = [f"Tree={i}\n" + "".join(f"{k}={v}\n" for k, v in t) for i, t in enumerate(trees)]
    blocks = [block + "\n\n" for block in blocks]
    header = _header(forest)
    header.append("tree_sizes=" + _joined(len(block.encode()) for block in blocks))
    metadata = _metadata(forest)
    parameters = [line for line in metadata.get("parameters", []) if isinstance(line, str)]
    return "\n".join(
        [
            "tree",
            *header,
            "",
            "".join(blocks) + "end of trees\n\nfeature_importances:\n",
            "parameters:",
            *parameters,
            "",
            "end of parameters\n",
            f"pandas_categorical:{_books(forest)}\n",
        ]
    )


def _trees(forest: Forest) -> Iterator[list[tuple[str, Any]]]:
    """Yield the lines of each tree; a base score is an iteration of constant trees."""
    base = base_score64(forest)
    constants = [[*_constant(value)] for value in base] if np.any(base != 0) else []
    if forest.output.base_first:
        yield from constants
    left, right, words = _sides(forest)
    node_id, leaf_id = _numbering(forest)
    b = strict_thresholds(forest)
    v = forest.leaves.v[:, 0].astype(np.float64)
    if forest.output.tree_weight is not None:
        v = np.repeat(forest.output.tree_weight, np.diff(forest.bitvectors.leaf_ptr)) * v
    B = forest.bitvectors
    for tree in range(forest.n_trees):
        nodes = slice(int(B.node_ptr[tree]), int(B.node_ptr[tree + 1]))
        leaves = slice(int(B.leaf_ptr[tree]), int(B.leaf_ptr[tree + 1]))
        yield [
            *_nodes(forest, nodes, left, right, words, node_id, leaf_id, b),
            *_leaf_lines(forest, leaves, leaf_id, v),
            ("shrinkage", 1),
        ]
    if not forest.output.base_first:
        yield from constants


def _constant(value: float) -> Iterator[tuple[str, Any]]:
    yield from [("num_leaves", 1), ("num_cat", 0), ("split_feature", ""), ("threshold", "")]
    yield from [("decision_type", ""), ("left_child", ""), ("right_child", "")]
    yield from [("leaf_value", repr(float(value))), ("is_linear", 0), ("shrinkage", 1)]


def _sides(
    forest: Forest,
) -> tuple[Int64[Array, " n_nodes"], Int64[Array, " n_nodes"], Array]:
    """Return children, and the words of sets whose codes go left.

    The set of a node where other codes go left names what goes right: its children change sides.
    """
    left, right = children(forest.bitvectors)
    tests = forest.tests
    turned = (tests.kind == Kind.SET) & ~tests.other_right
    words = np.where(np.repeat(turned, np.diff(tests.set_ptr)), tests.set_words, ~tests.set_words)
    return np.where(turned, right, left), np.where(turned, left, right), words


def _numbering(forest: Forest) -> tuple[Int64[Array, " n_nodes"], Int64[Array, " n_leaves"]]:
    """Return node and leaf ids within their tree: LightGBM's own where the forest keeps them."""
    B, source = forest.bitvectors, forest.source
    numberings = []
    for name, ptr in (("node_id", B.node_ptr), ("leaf_id", B.leaf_ptr)):
        plain = np.arange(ptr[-1]) - np.repeat(ptr[:-1], np.diff(ptr))
        own = getattr(source, name) if source is not None and source.library == "lightgbm" else None
        if own is not None:
            placed = own + np.repeat(ptr[:-1], np.diff(ptr))
            in_tree = (own >= 0) & (own < np.repeat(np.diff(ptr), np.diff(ptr)))
            roots = own[ptr[:-1][np.diff(ptr) > 0]] if name == "node_id" else np.zeros(1)
            if np.all(in_tree) and np.unique(placed).size == own.size and not np.any(roots):
                plain = own
        numberings.append(plain)
    return numberings[0], numberings[1]


def _nodes(
    forest: Forest,
    nodes: slice,
    left: Array,
    right: Array,
    words: Array,
    node_id: Array,
    leaf_id: Array,
    b: Array,
) -> Iterator[tuple[str, Any]]:
    tests, source = forest.tests, forest.source
    order = nodes.start + np.argsort(node_id[nodes], kind="stable")
    is_set = tests.kind[order] == Kind.SET
    zero = tests.missing_rule[order] == MissingRule.NAN_OR_ZERO
    decision = np.where(zero, MISSING_ZERO, MISSING_NAN) << MISSING_SHIFT
    decision += np.where(is_set, CATEGORICAL, np.where(tests.missing_right[order], 0, DEFAULT_LEFT))
    threshold = np.where(is_set, np.cumsum(is_set) - 1, b[order])
    size = np.diff(tests.set_ptr)[order][is_set]
    sets = [words[tests.set_ptr[k] : tests.set_ptr[k + 1]] for k in order[is_set]]
    yield "num_leaves", order.size + 1
    yield "num_cat", int(is_set.sum())
    yield "split_feature", _joined(tests.feature[order])
    if source is not None and source.gain is not None:
        yield "split_gain", _joined(source.gain[order])
    yield "threshold", _joined(threshold)
    yield "decision_type", _joined(decision)
    for name, side in (("left_child", left[order]), ("right_child", right[order])):
        is_leaf = side < 0
        named = leaf_id[np.where(is_leaf, ~side, 0)], node_id[np.where(is_leaf, 0, side)]
        yield name, _joined(np.where(is_leaf, ~named[0], named[1]))
    if source is not None and source.node_cover is not None:
        yield "internal_count", _joined(source.node_cover[order].astype(np.int64))
    if is_set.any():
        yield "cat_boundaries", _joined(np.concatenate([[0], np.cumsum(size)]))
        yield "cat_threshold", _joined(np.concatenate(sets))


def _leaf_lines(
    forest: Forest, leaves: slice, leaf_id: Array, v: Array
) -> Iterator[tuple[str, Any]]:
    source, linear = forest.source, forest.leaves.linear
    order = leaves.start + np.argsort(leaf_id[leaves], kind="stable")
    yield "leaf_value", _joined(v[order])
    if source is not None and source.leaf_cover is not None:
        yield "leaf_count", _joined(source.leaf_cover[order].astype(np.int64))
    yield "is_linear", int(linear is not None)
    if linear is None:
        return
    count = np.diff(linear.leaf_ptr)[order]
    term = ranges(linear.leaf_ptr[order], count)
    constant = np.where(count == 0, v[order], linear.constant[order, 0])
    yield "leaf_const", _joined(constant)
    yield "num_features", _joined(count)
    yield "leaf_features", _joined(linear.column[term])
    yield "leaf_coeff", _joined(linear.weight[term, 0])


def _joined(values: Any) -> str:
    """Return numbers as texts that read back to the same bits."""
    numbers = values.tolist() if isinstance(values, np.ndarray) else values
    return " ".join(map(repr, numbers))


def _metadata(forest: Forest) -> dict[str, Any]:
    source = forest.source
    return source.metadata if source is not None and source.library == "lightgbm" else {}


def _header(forest: Forest) -> list[str]:
    output, metadata, n = forest.output, _metadata(forest), forest.n_features
    objective = objective_text(output)
    own = metadata.get("objective")
    if own is not None:
        link = link_of(own, output.n_outputs)
        if (link.post_transform, link.parameter) == (output.post_transform, output.parameter):
            objective = own
    infos = metadata.get("feature_infos") or " ".join(_infos(forest))
    lines = [
        f"version={VERSION}",
        f"num_class={output.n_outputs}",
        f"num_tree_per_iteration={output.n_outputs}",
        f"label_index={metadata.get('label_index', 0)}",
        f"max_feature_idx={n - 1}",
        *([] if objective is None else [f"objective={objective}"]),
        *(["average_output"] if output.aggregate is Aggregate.MEAN else []),
        "feature_names=" + " ".join(_names(forest)),
    ]
    if "monotone_constraints" in metadata:
        lines.append(f"monotone_constraints={metadata['monotone_constraints']}")
    return [*lines, f"feature_infos={infos}"]


def _names(forest: Forest) -> list[str]:
    names = forest.inputs.feature_names
    if names is None:
        return [f"Column_{column}" for column in range(forest.n_features)]
    # LightGBM itself turns the blanks of a name, which separate names here, into underscores.
    names = tuple("_".join(name.split()) for name in names)
    if len(set(names)) < len(names) or "" in names:
        raise UnsupportedModelError(
            "feature names must be distinct and not empty with their blanks turned into "
            "underscores, as LightGBM has them: rename the columns."
        )
    return list(names)


def _infos(forest: Forest) -> list[str]:
    """Name the codes of category columns, by which these are known; the other ranges are not."""
    books = forest.inputs.categories or (None,) * forest.n_features
    return ["none" if not book else ":".join(map(str, range(-1, len(book)))) for book in books]


def _books(forest: Forest) -> str:
    lists = _metadata(forest).get("pandas_categorical")
    hashed = forest.inputs.hashed  # of which no frame can be told the texts
    books = [
        book
        for column, book in enumerate(forest.inputs.categories or ())
        if book is not None and column not in hashed
    ]
    return json.dumps(lists or books or None)
