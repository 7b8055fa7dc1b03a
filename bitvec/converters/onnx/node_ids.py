"""TreeEnsembleClassifier and TreeEnsembleRegressor: nodes named by a tree id and a node id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from bitvec.converters.onnx.operator import (
    Operator,
    checked,
    integers,
    missing_flags,
    numbers,
    require_one_length,
)
from bitvec.converters.onnx.operator_schema import CLASSIFIER, LEAF, Mode
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int32, Int64
from bitvec.errors import FileFormatError, UnsupportedModelError

_SPARSE: Final = 4
"""Ids that lie farther apart than this times their number are not looked up in a table."""


def read_by_ids(kind: str, given: Mapping[str, Any], dtype: np.dtype) -> Operator:
    """Read a TreeEnsembleClassifier or TreeEnsembleRegressor.

    Raises
    ------
    FileFormatError
        If lengths disagree, an id is unknown or repeated, or a number is out of range.
    UnsupportedModelError
        If the trees' nodes are mixed up, so that no node is known to be a root.
    """
    tree, node_id, true_id, false_id, feature = (
        integers(given, f"nodes_{name}")
        for name in ("treeids", "nodeids", "truenodeids", "falsenodeids", "featureids")
    )
    n = tree.size
    modes = given.get("nodes_modes", [])
    value = numbers(given, "nodes_values", dtype)
    sizes = {"nodes_treeids": n, "nodes_modes": len(modes), "nodes_values": value.size}
    sizes |= {"nodes_nodeids": node_id.size, "nodes_featureids": feature.size}
    sizes |= {"nodes_truenodeids": true_id.size, "nodes_falsenodeids": false_id.size}
    require_one_length(sizes)
    missing = missing_flags(given, n)
    first = _first_of_trees(tree)
    codes = {mode.name: int(mode) for mode in Mode if mode is not Mode.BRANCH_MEMBER}
    unknown = set(modes) - codes.keys() - {LEAF}
    if unknown:
        raise FileFormatError(
            f"`nodes_modes` must be LEAF or one of {', '.join(codes)}, got "
            f"{sorted(unknown)[0][:40]!r}."
        )
    mode = np.fromiter(map((codes | {LEAF: -1}).__getitem__, modes), np.int64, n)
    place = _Places(tree, node_id, first)
    is_leaf = mode < 0
    # Where each listed node stands among the nodes or the leaves.
    position = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    node = ~is_leaf
    prefix = "class" if kind == CLASSIFIER else "target"
    labels = _labels(given) if kind == CLASSIFIER else None
    # There may be many times as many weights as nodes, so no more of them is held than needed.
    owner = _owners(given, prefix, place, position)
    weights, target = numbers(given, f"{prefix}_weights", dtype), integers(given, f"{prefix}_ids")
    require_one_length(
        {
            f"{prefix}_nodeids": owner.size,
            f"{prefix}_ids": target.size,
            f"{prefix}_weights": weights.size,
        }
    )
    order: Array | slice = slice(None)
    if np.any(owner >= 0) or np.any(owner[1:] > owner[:-1]):
        on_leaf = owner < 0  # weights of inner nodes, which old converters wrote, are not used
        order = np.flatnonzero(on_leaf)[np.argsort(~owner[on_leaf], kind="stable")]
    n_targets = int(given.get("n_targets", 0)) if labels is None else labels.size
    return checked(
        Operator(
            mode=mode[node],
            feature=feature[node],
            value=value[node],
            missing_true=missing[node],
            true=position[place.of(tree[node], true_id[node], "nodes_truenodeids")],
            false=position[place.of(tree[node], false_id[node], "nodes_falsenodeids")],
            roots=position[first],
            node_id=node_id[node],
            leaf_id=node_id[is_leaf],
            weight=weights[order],
            weight_leaf=~owner[order],
            weight_target=target[order].astype(np.int32),
            negative_weights=bool(np.any(weights < 0)),
            n_targets=n_targets,
            base=numbers(given, "base_values", dtype),
            aggregate=given.get("aggregate_function", "SUM"),
            transform=given.get("post_transform", "NONE"),
            labels=labels,
        ),
        target,
    )


def _owners(
    given: Mapping[str, Any], prefix: str, place: _Places, position: Int64[Array, " n"]
) -> Int32[Array, " n_weights"]:
    """Return the node or `~leaf` that each weight belongs to."""
    tree, node = (integers(given, f"{prefix}_{name}") for name in ("treeids", "nodeids"))
    require_one_length({f"{prefix}_treeids": tree.size, f"{prefix}_nodeids": node.size})
    return position.astype(np.int32)[place.of(tree, node, f"{prefix}_nodeids")]


class _Places:
    """Places in the file of the nodes of tree ids and node ids.

    Exporters number the nodes of a tree from 0, so a table of the ids between a tree's least and
    greatest is small. Ids that lie farther apart are first replaced by their ranks among all ids,
    and keys of both are searched for.
    """

    def __init__(
        self, tree: Int64[Array, " n"], node: Int64[Array, " n"], first: Int64[Array, " n_trees"]
    ) -> None:
        run = np.repeat(np.arange(first.size), np.diff(first, append=tree.size))
        self._order = np.argsort(tree[first])
        self._trees = tree[first][self._order]
        self._low = np.minimum.reduceat(node, first)
        self._high = np.maximum.reduceat(node, first)
        ends = zip(self._low.tolist(), self._high.tolist(), strict=True)
        span = [high - low + 1 for low, high in ends]  # of Python's integers, which stay whole
        self._keys: Array | None = None
        if sum(span) <= _SPARSE * node.size:
            self._start = np.cumsum([0, *span])[:-1] - self._low
            self._table = np.full(sum(span), -1)
            self._table[self._start[run] + node] = np.arange(node.size)
            repeats = int(np.count_nonzero(self._table >= 0)) < node.size
        else:
            self._nodes, rank = np.unique(node, return_inverse=True)
            key = run * self._nodes.size + rank.ravel()
            self._table = np.argsort(key, kind="stable")
            self._keys = key[self._table]
            repeats = bool(np.any(self._keys[1:] == self._keys[:-1]))
        if repeats:
            raise FileFormatError("each node of a tree must have its own id, got one id twice.")

    def of(self, tree: Array, node: Array, name: str) -> Int64[Array, " n"]:
        """Return the places of some nodes."""
        if not tree.size:
            return np.zeros(0, np.int64)
        # The weights of a leaf stand together, so each run of equal pairs is looked up once.
        head = np.append(True, (tree[1:] != tree[:-1]) | (node[1:] != node[:-1]))
        first = np.flatnonzero(head)
        found = self._found(tree[first], node[first], name)
        return np.repeat(found, np.diff(first, append=tree.size))

    def _found(self, tree: Array, node: Array, name: str) -> Int64[Array, " n"]:
        rank = np.minimum(np.searchsorted(self._trees, tree), self._trees.size - 1)
        known = self._trees[rank] == tree
        run = self._order[rank]
        known &= (node >= self._low[run]) & (node <= self._high[run])
        if self._keys is None:
            place: Array = self._table[np.where(known, self._start[run] + node, 0)]
            known &= place >= 0
        else:
            at = np.minimum(np.searchsorted(self._nodes, node), self._nodes.size - 1)
            key = run * self._nodes.size + at
            found = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
            known &= (self._nodes[at] == node) & (self._keys[found] == key)
            place = self._table[found]
        if not np.all(known):
            raise FileFormatError(
                f"`{name}` must name nodes of their tree, got {int(node[~known][0])}."
            )
        return place


def _first_of_trees(tree: Int64[Array, " n"]) -> Int64[Array, " n_trees"]:
    first = np.flatnonzero(np.append(True, tree[1:] != tree[:-1])) if tree.size else tree
    if first.size == 0:
        raise FileFormatError("the model must have at least one tree, got no nodes.")
    if np.unique(tree[first]).size != first.size:
        raise UnsupportedModelError(
            "the nodes of a tree must stand together, got trees mixed up: their roots are unknown."
        )
    return first


def _labels(given: Mapping[str, Any]) -> Array:
    texts = given.get("classlabels_strings") or []
    numbers = integers(given, "classlabels_int64s")
    if bool(texts) == bool(numbers.size):
        raise FileFormatError(
            "a classifier must have `classlabels_strings` or `classlabels_int64s`, got "
            f"{'both' if texts else 'none'}."
        )
    labels = np.array(texts) if texts else numbers
    if np.unique(labels).size != labels.size:
        raise FileFormatError("class labels must be distinct, got one twice.")
    return labels
