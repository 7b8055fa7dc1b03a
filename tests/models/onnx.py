"""Models of ONNX: tree operators of each version, by modes, aggregates, transforms and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = "BRANCH_MEMBER"
"""Of version 5, whose modes have numbers in this order."""
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""As onnxruntime numbers them, not as the standard does."""
CLASSIFIER, REGRESSOR, ENSEMBLE = "TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"
GRID = np.arange(-4, 5) / 2
N_FEATURES, N_TREES = 3, 6


class Model(NamedTuple):
    """How an operator is built of trees.

    Parameters
    ----------
    n_outputs : int
        Targets or classes.
    labels : str
        "numbers" or "texts", of a classifier.
    signed, missing, base : bool
        Whether weights may be negative, nodes say where missing values go, and there are base
        values.
    in_turn : bool
        Of version 5: whether each leaf of a tree weighs the next target, instead of each tree.
    """

    kind: str
    version: int = 3
    modes: tuple[str, ...] = MODES
    aggregate: str = "SUM"
    transform: str = "NONE"
    n_outputs: int = 1
    labels: str = "numbers"
    double: bool = False
    signed: bool = True
    missing: bool = True
    base: bool = False
    in_turn: bool = False

    @property
    def dtype(self) -> type:
        """The type of thresholds and weights."""
        return np.float64 if self.double else np.float32

    @property
    def supported(self) -> tuple[str, ...]:
        """The options of the format that this model has, beside those that its data bring."""
        classes = self.kind == CLASSIFIER
        return (
            f"{self.kind} v{self.version}",
            f"post transform {self.transform}",
            *([] if classes else [f"aggregate {self.aggregate}"]),
            *(["labels of text"] if classes and self.labels == "texts" else []),
            *(["float64"] if self.double else []),
            *(mode for mode in self.modes if mode != MEMBER),
            *(["mixed modes"] if len(self.modes) > 1 else []),
            *(["set membership"] if MEMBER in self.modes else []),
        )

    @property
    def width(self) -> int:
        """How many weights a leaf has where it weighs all outputs: of two classes one."""
        return 1 if self.kind == CLASSIFIER and self.n_outputs == 2 else self.n_outputs


def _of(double: bool) -> dict[str, Model]:
    versions = (3,) if double else (1, 3)
    each = {
        **{
            f"{', '.join(modes) if len(modes) < 2 else 'mixed modes'}, version {version}": Model(
                REGRESSOR, version, modes
            )
            for version in versions
            for modes in (*((mode,) for mode in MODES), MODES)
        },
        **{
            f"{aggregate}{' on a base' * base}": Model(
                REGRESSOR, aggregate=aggregate, n_outputs=2, base=base
            )
            for aggregate in AGGREGATES
            for base in (False, True)
        },
        **{
            f"{aggregate} of {name}, version 5": Model(ENSEMBLE, 5, modes, aggregate)
            for aggregate in AGGREGATES
            for name, modes in (("sets", (MEMBER,)), ("all modes", (*MODES, MEMBER)))
        },
        **{
            f"{transform}, version {version}": Model(
                ENSEMBLE if version == 5 else REGRESSOR, version, transform=transform, n_outputs=3
            )
            for transform in TRANSFORMS
            for version in (3, 5)
        },
        **{
            f"{transform} of {n} {labels}{', shares' * (not signed)}": Model(
                CLASSIFIER, transform=transform, n_outputs=n, labels=labels, signed=signed
            )
            for transform in TRANSFORMS
            for n in (2, 3)
            for labels in ("numbers", "texts")
            for signed in (True, False)
            if (signed or n == 2)
            and not (transform == "PROBIT" and n == 2)  # its inverse normal is NaN beside 0 to 1
        },
    }
    return {name: model._replace(double=double) for name, model in each.items()}


MODELS: dict[str, Model] = {
    f"{name}, {'float64' if double else 'float32'}": model
    for double in (False, True)
    for name, model in _of(double).items()
}
MODELS["no missing values, float32"] = Model(REGRESSOR, 1, MODES[:1], missing=False)
MODELS["targets of leaves, version 5, float32"] = Model(ENSEMBLE, 5, n_outputs=2, in_turn=True)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes and leaves of all trees, in order; children are numbers within a tree."""

    tree: np.ndarray
    number: np.ndarray
    feature: np.ndarray
    mode: np.ndarray
    value: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing_true: np.ndarray
    weight: np.ndarray
    members: list[float]

    @property
    def is_leaf(self) -> np.ndarray:
        """Mark those that are leaves."""
        return self.mode == "LEAF"


def by_ids(nodes: Nodes, prefix: str) -> dict[str, Any]:
    """Return the attributes of versions before 5; each leaf weighs all targets or classes."""
    leaf = np.flatnonzero(nodes.is_leaf)
    width = nodes.weight.shape[1]
    weight = nodes.weight[leaf].ravel()
    given = {
        "nodes_treeids": nodes.tree.tolist(),
        "nodes_nodeids": nodes.number.tolist(),
        "nodes_featureids": nodes.feature.tolist(),
        "nodes_modes": nodes.mode.tolist(),
        "nodes_truenodeids": nodes.true.tolist(),
        "nodes_falsenodeids": nodes.false.tolist(),
        "nodes_missing_value_tracks_true": nodes.missing_true.astype(int).tolist(),
        f"{prefix}_treeids": np.repeat(nodes.tree[leaf], width).tolist(),
        f"{prefix}_nodeids": np.repeat(nodes.number[leaf], width).tolist(),
        f"{prefix}_ids": np.tile(np.arange(width), leaf.size).tolist(),
    }
    if weight.dtype == np.float32:
        return given | {"nodes_values": nodes.value.tolist(), f"{prefix}_weights": weight.tolist()}
    return given | {"nodes_values_as_tensor": nodes.value, f"{prefix}_weights_as_tensor": weight}


def by_positions(nodes: Nodes, *, in_turn: bool = False) -> dict[str, Any]:
    """Return the attributes of version 5; each tree weighs the next target, or each leaf does."""
    is_leaf, width = nodes.is_leaf, nodes.weight.shape[1]
    first = np.searchsorted(nodes.tree, np.arange(nodes.tree[-1] + 1))
    place = np.where(is_leaf, np.cumsum(is_leaf), np.cumsum(~is_leaf)) - 1
    true, false = ((first[nodes.tree] + side)[~is_leaf] for side in (nodes.true, nodes.false))
    target = (np.arange(is_leaf.sum()) if in_turn else nodes.tree[is_leaf]) % width
    given = {
        "tree_roots": place[first].tolist(),
        "nodes_featureids": nodes.feature[~is_leaf].tolist(),
        "nodes_modes": np.array(
            [(*MODES, MEMBER).index(m) for m in nodes.mode[~is_leaf]], np.uint8
        ),
        "nodes_splits": nodes.value[~is_leaf],
        "nodes_truenodeids": place[true].tolist(),
        "nodes_trueleafs": is_leaf[true].astype(int).tolist(),
        "nodes_falsenodeids": place[false].tolist(),
        "nodes_falseleafs": is_leaf[false].astype(int).tolist(),
        "nodes_missing_value_tracks_true": nodes.missing_true[~is_leaf].astype(int).tolist(),
        "leaf_targetids": target.tolist(),
        "leaf_weights": nodes.weight[is_leaf][np.arange(target.size), target],
    }
    if nodes.members:
        given["membership_values"] = np.array(nodes.members, nodes.value.dtype)
    return given


def operator(
    kind: str, version: int, given: dict[str, Any], n_features: int, dtype: type = np.float32
) -> Any:
    """Return a model of one operator; arrays become tensors."""
    helper = onnx.helper
    element = onnx.TensorProto.DOUBLE if dtype == np.float64 else onnx.TensorProto.FLOAT
    outputs = {"scores": element if kind == ENSEMBLE else onnx.TensorProto.FLOAT}
    if kind == CLASSIFIER:
        texts = "classlabels_strings" in given
        label = onnx.TensorProto.STRING if texts else onnx.TensorProto.INT64
        outputs = {"label": label, **outputs}
    given = {
        name: onnx.numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        for name, value in given.items()
    }
    domain = "ai.onnx.ml"
    graph = helper.make_graph(
        [helper.make_node(kind, ["X"], list(outputs), name="trees", domain=domain, **given)],
        "forest",
        [helper.make_tensor_value_info("X", element, [None, n_features])],
        [helper.make_tensor_value_info(name, type_, None) for name, type_ in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def drawn(model: Model, seed: int = 0, *, n_trees: int = N_TREES, most: int = 8) -> Nodes:
    """Draw trees of up to `most` tests on a grid, or of sets of codes up to 40."""
    rng = np.random.default_rng(seed)
    fields: dict[str, list[Any]] = {
        name: [] for name in ("tree", "number", "mode", "true", "false", "members")
    }
    for tree in range(n_trees):
        true, false, waiting = [0], [0], [0]
        for _ in range(int(rng.integers(1, most + 1))):
            at = waiting.pop(int(rng.integers(len(waiting))))
            true[at], false[at] = len(true), len(true) + 1
            waiting += [true[at], false[at]]
            true += [0, 0]
            false += [0, 0]
        fields["tree"] += [tree] * len(true)
        fields["number"] += range(len(true))
        fields["mode"] += [str(rng.choice(model.modes)) if side else "LEAF" for side in true]
        fields["true"] += true
        fields["false"] += false
    for _ in range(fields["mode"].count(MEMBER)):
        chosen = rng.choice(40, int(rng.integers(1, 6)), replace=False)
        fields["members"] += [*sorted(chosen.tolist()), np.nan]
    size = len(fields["tree"])
    weight = rng.integers(-8, 9, (size, model.width)) / 8
    if model.kind != CLASSIFIER:
        weight = rng.normal(size=(size, model.n_outputs))
    return Nodes(
        **{name: np.array(fields[name]) for name in ("tree", "number", "mode", "true", "false")},
        feature=rng.integers(0, N_FEATURES, size),
        value=rng.choice(GRID, size).astype(model.dtype),
        missing_true=rng.random(size) < 0.5,
        weight=(weight if model.signed else np.abs(weight)).astype(model.dtype),
        members=fields["members"],
    )


def train(model: Model, nodes: Nodes | None = None, n_features: int = N_FEATURES) -> Any:
    """Return a model of these trees, drawn ones if none are given."""
    nodes = drawn(model) if nodes is None else nodes
    given: dict[str, Any] = {"post_transform": model.transform}
    if model.version == 5:
        given = by_positions(nodes, in_turn=model.in_turn) | {
            "n_targets": model.n_outputs,
            "aggregate_function": AGGREGATES.index(model.aggregate),
            "post_transform": TRANSFORMS.index(model.transform),
        }
    elif model.kind == CLASSIFIER:
        given |= by_ids(nodes, "class")
        if model.labels == "texts":
            names = ["", "é", "x y", *(f"class {n}" for n in range(3, model.n_outputs))]
            given["classlabels_strings"] = names[: model.n_outputs]
        else:
            numbers = [7, -3, *range(11, 9 + model.n_outputs)]
            given["classlabels_int64s"] = numbers[: model.n_outputs]
    else:
        given |= by_ids(nodes, "target")
        given |= {"n_targets": model.n_outputs, "aggregate_function": model.aggregate}
    if model.base:
        given["base_values"] = [0.25, -1.5][: model.n_outputs]
    if not model.missing:
        del given["nodes_missing_value_tracks_true"]
    return operator(model.kind, model.version, given, n_features, model.dtype)


def bare(model: Model) -> Model:
    """Return a model whose answers are its raw scores."""
    return model._replace(transform="NONE")
