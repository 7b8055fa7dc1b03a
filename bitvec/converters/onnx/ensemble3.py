"""Forests as TreeEnsembleRegressor or TreeEnsembleClassifier (ai.onnx.ml, version 3).

These compare and add in float32, on one thread tree by tree in their order, and their leaves hold
vectors: what onnxruntime does fastest with a forest of classes. Runtimes that do not know version 5
know them. A classifier whose labels and probabilities the operator makes itself is one operator.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bitvec.converters.onnx.branches import Branches, branches
from bitvec.converters.onnx.operator_schema import CLASSIFIER, DOMAIN, LEAF, REGRESSOR, Mode
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph
from bitvec.core.output import Aggregate, PostTransform
from bitvec.errors import UnsupportedModelError

VERSION: Final = 3
F32: Final = np.dtype(np.float32)
CLASSIFIES: Final = {
    PostTransform.IDENTITY: "NONE",
    PostTransform.SIGMOID: "LOGISTIC",
    PostTransform.LOGISTIC: "LOGISTIC",
    PostTransform.SOFTMAX: "SOFTMAX",
}
"""Post-transforms that the classifier makes itself, within units in the last place."""
ANSWERS: Final = ("label", "probabilities")


def require_version_3(forest: Forest) -> None:
    """Refuse what the operators of version 3 cannot hold.

    Raises
    ------
    UnsupportedModelError
    """
    sets = np.flatnonzero(branches(forest).mode == Mode.BRANCH_MEMBER)
    reasons = (
        (sets.size > 0, f"no category sets of several codes, got {sets.size} nodes of them"),
        (forest.leaves.linear is not None, "constant leaves, got linear ones"),
        (
            forest.output.aggregate not in (Aggregate.SUM, Aggregate.MEAN),
            f"a sum or a mean over trees, got {forest.output.aggregate}",
        ),
    )
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(
                f"version {VERSION} of ai.onnx.ml needs {sentence}: write version 5, or the form "
                "`traversal` or `tensor`."
            )


def classifies(forest: Forest, outputs: tuple[str, ...] | None) -> bool:
    """Return whether one TreeEnsembleClassifier gives the outputs that are wanted.

    onnxruntime takes the second of two classes where the score of one output exceeds 0 if any leaf
    is negative and one half if none is, and of several classes the first with the greatest score
    before the transform.
    """
    output = forest.output
    named = output.classes is not None and len(output.classes) == 1
    if outputs is None or not set(outputs) <= set(ANSWERS) or not named:
        return False
    if output.post_transform not in CLASSIFIES or output.parameter != 1.0:
        return False
    assert output.classes is not None
    if output.classes[0].dtype.kind not in "iU" or output.boundary is not None:
        return False
    if output.n_outputs == 1:
        has_scores = output.post_transform is not PostTransform.IDENTITY
        return has_scores and bool((forest.leaves.v < 0).any()) and not output.tie_to_second
    return output.n_outputs > 2 or _is_share(forest)


def _is_share(forest: Forest) -> bool:
    """Return whether leaves hold the shares of two classes, so that one share says both."""
    vectors = forest.leaves.v
    return (
        vectors.shape[1] == 2
        and forest.output.post_transform is PostTransform.IDENTITY
        and forest.output.aggregate is Aggregate.MEAN
        and forest.output.divisor is None
        and not forest.output.base_score.any()
        and bool((vectors >= 0).all())
        # Shares are rounded to float32 at the least.
        and bool(np.allclose(vectors.sum(axis=1), 1, rtol=0, atol=1e-6))
    )


def raw_score(graph: Graph, forest: Forest, columns: str, nodes: Branches) -> str:
    """Append a TreeEnsembleRegressor; the raw score, float32, (batch, n_outputs)."""
    return graph.add(
        REGRESSOR,
        columns,
        name="score",
        domain=DOMAIN,
        n_targets=forest.n_outputs,
        post_transform="NONE",
        **_scoring(forest, nodes, "target", forest.leaves.v),
    )


def leaf_numbers(graph: Graph, forest: Forest, columns: str, nodes: Branches) -> str:
    """Append a TreeEnsembleRegressor; the exit leaves of each tree, float32, (batch, n_trees)."""
    sizes = np.diff(forest.bitvectors.leaf_ptr)
    leaf, tree = np.arange(forest.n_leaves), np.repeat(np.arange(forest.n_trees), sizes)
    number = leaf - np.repeat(forest.bitvectors.leaf_ptr[:-1], sizes)
    return graph.add(
        REGRESSOR,
        columns,
        name="leaf_number",
        domain=DOMAIN,
        n_targets=forest.n_trees,
        post_transform="NONE",
        **_attributes(_nodes(forest, nodes), "nodes"),
        **_attributes(_leaves(forest, leaf, tree, number.astype(F32)), "target"),
    )


def add_classifier(graph: Graph, forest: Forest, columns: str, nodes: Branches) -> None:
    """Append a TreeEnsembleClassifier with the outputs `label` and `probabilities`."""
    output = forest.output
    assert output.classes is not None
    labels, weights = output.classes[0], forest.leaves.v
    if output.n_outputs == 2:  # one share says both
        weights = weights[:, 1:]
    text = labels.dtype.kind == "U"
    attributes = _scoring(forest, nodes, "class", weights)
    attributes["classlabels_strings" if text else "classlabels_int64s"] = labels.tolist()
    label, probabilities = graph.split(
        CLASSIFIER,
        columns,
        names=("class_label", "class_probability"),
        domain=DOMAIN,
        post_transform=CLASSIFIES[output.post_transform],
        **attributes,
    )
    graph.output("label", label, labels.dtype if text else np.dtype(np.int64), ("batch",))
    graph.output("probabilities", probabilities, F32, ("batch", int(labels.size)))


def _scoring(forest: Forest, tests: Branches, prefix: str, weights: Array) -> dict[str, Any]:
    """Return the attributes of trees that score; the base score is a tree of one leaf."""
    nodes, leaves = _nodes(forest, tests), _leaves(forest, *_terms(forest, weights))
    base, first = forest.output.base_score, forest.output.base_first
    if base.any():
        alone: dict[str, Any] = {"treeids": -1 if first else forest.n_trees, "modes": LEAF}
        nodes = {
            name: np.insert(values, 0 if first else len(values), alone.get(name, 0))
            for name, values in nodes.items()
        }
        added = {
            "treeids": np.full(base.size, alone["treeids"]),
            "nodeids": np.zeros(base.size, np.int64),
            "ids": np.arange(base.size),
            "weights": base.astype(F32),
        }
        pairs = [(added, leaves)] if first else [(leaves, added)]
        for before, after in pairs:
            leaves = {name: np.concatenate([before[name], after[name]]) for name in leaves}
        if first:
            nodes["treeids"], leaves["treeids"] = nodes["treeids"] + 1, leaves["treeids"] + 1
    return _attributes(nodes, "nodes") | _attributes(leaves, prefix)


def _attributes(columns: dict[str, Array], prefix: str) -> dict[str, Any]:
    """Return columns as attributes: lists, since `onnx.reference` reads no tensors of numbers."""
    return {f"{prefix}_{name}": values.tolist() for name, values in columns.items()}


def _terms(forest: Forest, weights: Array) -> tuple[Array, Array, Array]:
    """Return which leaf adds what to which output.

    Zeros are left out, but in the first tree: onnxruntime's label skips a class that no leaf of the
    row weighs.
    """
    width = weights.shape[1]
    leaf, value = np.repeat(np.arange(len(weights)), width), weights.ravel()
    named = forest.leaves.output
    if named is not None:
        return leaf, named.astype(np.int64), value
    output = np.tile(np.arange(width), len(weights))
    said = weights != 0
    said[: int(forest.bitvectors.leaf_ptr[1])] = True
    said[~said.any(axis=1), 0] = True
    kept = said.ravel()
    return leaf[kept], output[kept], value[kept]


def _nodes(forest: Forest, tests: Branches) -> dict[str, Array]:
    """Return the columns of nodes: of each tree its tests, then its leaves."""
    B = forest.bitvectors
    left, right = structure.children(B)
    n_nodes = np.diff(B.node_ptr)
    size = n_nodes + np.diff(B.leaf_ptr)
    first = np.concatenate([[0], np.cumsum(size)])
    tree = np.repeat(np.arange(B.n_trees), n_nodes)
    at = first[tree] + np.arange(B.n_nodes) - B.node_ptr[tree]

    def local(child: Array) -> Array:
        """Return a child's number within its tree."""
        leaf = ~child - B.leaf_ptr[tree] + n_nodes[tree]
        return np.where(child < 0, leaf, child - B.node_ptr[tree])

    columns: dict[str, Array] = {
        "treeids": np.repeat(np.arange(B.n_trees), size),
        "nodeids": np.arange(first[-1]) - np.repeat(first[:-1], size),
    }
    of_tests = {
        "featureids": tests.feature,
        "modes": np.array([mode.name for mode in Mode])[tests.mode],
        "values": tests.split.astype(F32),
        "truenodeids": local(np.where(tests.true_right, right, left)),
        "falsenodeids": local(np.where(tests.true_right, left, right)),
        # Given though all are 0: without them `onnx.reference` fails on NaN.
        "missing_value_tracks_true": tests.missing_true.astype(np.int64),
    }
    for name, values in of_tests.items():
        columns[name] = np.full(first[-1], LEAF if name == "modes" else 0, values.dtype)
        columns[name][at] = values
    return columns


def _leaves(forest: Forest, leaf: Array, output: Array, value: Array) -> dict[str, Array]:
    """Return the columns of what leaves add."""
    B = forest.bitvectors
    tree = np.searchsorted(B.leaf_ptr, leaf, side="right") - 1
    return {
        "treeids": tree,
        "nodeids": leaf - B.leaf_ptr[tree] + np.diff(B.node_ptr)[tree],
        "ids": output,
        "weights": value,
    }
