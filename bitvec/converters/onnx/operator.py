"""The attributes of a tree operator, of any version, as one set of arrays.

Versions 1 to 4 name nodes by a tree id and a node id, leaves among them; version 5 numbers nodes
and leaves apart. Both become positions here, with `~leaf` for a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bitvec.converters.onnx.operator_schema import AGGREGATES, TRANSFORMS, Mode
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float, Int32, Int64
from bitvec.errors import FileFormatError, UnsupportedModelError

LARGEST_TARGETS = 1 << 24
"""Outputs that one operator may have."""


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One tree operator; F is the dtype in which it compares and sums.

    Parameters
    ----------
    mode : int64, (n_nodes,)
        A `Mode`.
    feature : int64, (n_nodes,)
    value : F, (n_nodes,)
    missing_true : bool, (n_nodes,)
        Whether NaN takes the true branch.
    true, false : int64, (n_nodes,)
        The child on each branch: a node, or `~leaf`.
    roots : int64, (n_trees,)
        A node or `~leaf`.
    member, member_node : F and int64, (n_members,)
        The members of each set, in the order of their nodes.
    node_id, leaf_id : int64
        The file's own numbers.
    weight : F, (n_weights,)
    weight_leaf, weight_target : int32, (n_weights,)
        What each leaf adds to which output, in the order of the leaves.
    negative_weights : bool
        Whether any weight of the file is below 0, also one that no leaf has.
    n_targets : int
        Outputs of the scores: targets, or classes.
    base : F, (0,) or (n_base,)
    aggregate, transform : str
    labels : int64 or str, (n_classes,), or None
        Of a classifier.
    """

    mode: Int64[Array, " n_nodes"]
    feature: Int64[Array, " n_nodes"]
    value: Float[Array, " n_nodes"]
    missing_true: Bool[Array, " n_nodes"]
    true: Int64[Array, " n_nodes"]
    false: Int64[Array, " n_nodes"]
    roots: Int64[Array, " n_trees"]
    node_id: Int64[Array, " n_nodes"]
    leaf_id: Int64[Array, " n_leaves"]
    weight: Float[Array, " n_weights"]
    weight_leaf: Int32[Array, " n_weights"]
    weight_target: Int32[Array, " n_weights"]
    negative_weights: bool
    n_targets: int
    base: Float[Array, " n_base"]
    aggregate: str
    transform: str
    labels: Array | None = None
    member: Array = field(default_factory=lambda: np.zeros(0))
    member_node: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the file."""
        return self.leaf_id.size


def read_by_positions(given: Mapping[str, Any], dtype: np.dtype) -> Operator:
    """Read a TreeEnsemble of version 5.

    Raises
    ------
    FileFormatError
        If lengths disagree or a number is out of range.
    """
    feature, true, false, true_leaf, false_leaf = (
        integers(given, f"nodes_{name}")
        for name in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    )
    n = feature.size
    mode = typed_tensor(given, "nodes_modes", np.dtype(np.uint8)).astype(np.int64)
    value = typed_tensor(given, "nodes_splits", dtype)
    weight = typed_tensor(given, "leaf_weights", dtype)
    target = integers(given, "leaf_targetids")
    sizes = {"nodes_featureids": n, "nodes_modes": mode.size, "nodes_splits": value.size}
    sizes |= {"nodes_truenodeids": true.size, "nodes_falsenodeids": false.size}
    sizes |= {"nodes_trueleafs": true_leaf.size, "nodes_falseleafs": false_leaf.size}
    require_one_length(sizes)
    require_one_length({"leaf_weights": weight.size, "leaf_targetids": target.size})
    if mode.size and int(mode.max()) >= len(Mode):
        raise FileFormatError(f"`nodes_modes` must be below {len(Mode)}, got {int(mode.max())}.")
    for name, child, is_leaf in (("true", true, true_leaf), ("false", false, false_leaf)):
        limit = np.where(is_leaf != 0, weight.size, n)
        if np.any((child < 0) | (child >= limit)):
            raise FileFormatError(
                f"`nodes_{name}nodeids` must name one of {n} nodes or {weight.size} leaves, got "
                f"{int(child[(child < 0) | (child >= limit)][0])}."
            )
    true = np.where(true_leaf != 0, ~true, true)
    false = np.where(false_leaf != 0, ~false, false)
    roots = integers(given, "tree_roots")
    if roots.size == 0 or int(roots.min()) < 0 or int(roots.max()) >= n:
        raise FileFormatError(f"`tree_roots` must name one of {n} nodes each, got others or none.")
    # A root whose two branches are one leaf is a tree of that leaf.
    alone = (true[roots] == false[roots]) & (true[roots] < 0)
    member, member_node = _members(given, mode, dtype)
    aggregate = int(given.get("aggregate_function", AGGREGATES.index("SUM")))
    transform = int(given.get("post_transform", 0))
    if not 0 <= aggregate < len(AGGREGATES) or not 0 <= transform < len(TRANSFORMS):
        raise FileFormatError(
            f"`aggregate_function` must be below {len(AGGREGATES)} and `post_transform` below "
            f"{len(TRANSFORMS)}, got {aggregate} and {transform}."
        )
    return checked(
        Operator(
            mode=mode,
            feature=feature,
            value=value,
            missing_true=missing_flags(given, n),
            true=true,
            false=false,
            roots=np.where(alone, true[roots], roots),
            node_id=np.arange(n),
            leaf_id=np.arange(weight.size),
            weight=weight,
            weight_leaf=np.arange(weight.size, dtype=np.int32),
            weight_target=target.astype(np.int32),
            negative_weights=bool(np.any(weight < 0)),
            n_targets=int(given.get("n_targets", 0)),
            base=np.zeros(0, dtype),
            aggregate=AGGREGATES[aggregate],
            transform=TRANSFORMS[transform],
            member=member,
            member_node=member_node,
        ),
        target,
    )


def _members(given: Mapping[str, Any], mode: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """Return the members of each set and its node; NaN ends a set."""
    values = typed_tensor(given, "membership_values", dtype)
    ends = np.isnan(values)
    if values.size and not ends[-1]:  # the last NaN may be left out
        values, ends = np.append(values, values.dtype.type(np.nan)), np.append(ends, True)
    nodes = np.flatnonzero(mode == Mode.BRANCH_MEMBER)
    count = np.diff(np.flatnonzero(ends), prepend=-1) - 1
    if count.size != nodes.size or np.any(count == 0):
        raise FileFormatError(
            f"`membership_values` must hold members of {nodes.size} sets, each ended by NaN, got "
            f"{count.size} sets or an empty one."
        )
    return values[~ends], np.repeat(nodes, count)


def integers(given: Mapping[str, Any], name: str) -> Int64[Array, " n"]:
    values: Array = given.get(name, np.zeros(0, np.int64))
    return values


def typed_tensor(given: Mapping[str, Any], name: str, dtype: np.dtype) -> Array:
    values: Array = given.get(name, np.zeros(0, dtype))
    if values.ndim != 1 or values.dtype != dtype:
        raise FileFormatError(
            f"`{name}` must hold {dtype} in one axis, got {values.dtype} of shape {values.shape}."
        )
    return values


def numbers(given: Mapping[str, Any], name: str, dtype: np.dtype) -> Array:
    """Return numbers that stand as float32, or as a tensor of the operator's own dtype."""
    plain = given.get(name, np.zeros(0, np.float32))
    if not np.size(given.get(f"{name}_as_tensor", ())):
        wide: Array = plain.astype(dtype)
        return wide
    if plain.size:
        raise FileFormatError(f"`{name}` and `{name}_as_tensor` must not both be given.")
    return typed_tensor(given, f"{name}_as_tensor", dtype)


def missing_flags(given: Mapping[str, Any], n: int) -> Bool[Array, " n"]:
    """Return whether NaN goes to the true branch; flags that are not given are 0."""
    flags = integers(given, "nodes_missing_value_tracks_true")
    if flags.size > n or not np.all((flags == 0) | (flags == 1)):
        raise FileFormatError(
            f"`nodes_missing_value_tracks_true` must hold at most {n} flags 0 or 1, got "
            f"{flags.size} values."
        )
    missing = np.zeros(n, bool)
    missing[: flags.size] = flags == 1
    return missing


def require_one_length(sizes: dict[str, int]) -> None:
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise FileFormatError(f"attributes must have one length, got {listed}.")


def checked(operator: Operator, target: Array) -> Operator:
    """Check what both layouts share."""
    n_targets = operator.n_targets
    if not 1 <= n_targets <= LARGEST_TARGETS:
        raise FileFormatError(
            f"the operator must have 1 to {LARGEST_TARGETS} targets or classes, got {n_targets}."
        )
    if target.size and (int(target.min()) < 0 or int(target.max()) >= n_targets):
        raise FileFormatError(
            f"each target or class id must be below {n_targets}, got {int(target.min())} to "
            f"{int(target.max())}."
        )
    if operator.feature.size and not (
        int(operator.feature.min()) >= 0 and int(operator.feature.max()) < 2**31
    ):
        raise FileFormatError("`nodes_featureids` must be below 2**31 and not negative.")
    if operator.aggregate not in AGGREGATES or operator.transform not in TRANSFORMS:
        raise FileFormatError(
            f"the aggregate must be one of {', '.join(AGGREGATES)} and the post-transform one of "
            f"{', '.join(TRANSFORMS)}, got {operator.aggregate[:40]!r} and "
            f"{operator.transform[:40]!r}."
        )
    compares = operator.mode != Mode.BRANCH_MEMBER
    for name, values in (
        ("node values", operator.value[compares]),
        ("leaf weights", operator.weight),
        ("base values", operator.base),
    ):
        if np.any(np.isnan(values)):
            raise UnsupportedModelError(f"{name} must be numbers, got NaN: train the model again.")
    return operator
