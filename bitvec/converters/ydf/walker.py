"""The trees of a YDF model as the messages of its own nodes, which ydf hands out depth first.

ydf makes its tree objects of these messages; the objects drop what a leaf votes for, and round its
shares. Missing values go as the engine sends them that `predict` takes by itself: a category's or a
truth value's go where the most frequent one goes; a number's where its mean goes, if that is where
all nodes say, and otherwise where the node says, but never right at an oblique node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import WORD_BITS, Kind, NodeTests, Relation, from_rows, set_bits
from bitvec.core.output import PostTransform
from bitvec.verify.source_trees import SourceTrees

_F32 = np.float32
_CATEGORICAL, _BOOLEAN = 4, 7


class _Walk:
    """Nodes, leaves and links of trees, gathered one message after the other."""

    def __init__(self, model: Any) -> None:
        self.columns = model.data_spec().columns
        self.place = {column: i for i, column in enumerate(model.input_features_col_idxs())}
        self.conditions: list[Any] = []
        self.leaves: list[Any] = []
        self.depth: list[int] = []
        self.below_oblique: list[bool] = []
        self.children: list[list[int]] = []
        self.root: list[int] = []
        self.leaf_id: list[int] = []
        self.tree: list[int] = []
        for tree in range(model.num_trees()):
            self._add(model._model.GetTree(tree), tree)

    def _add(self, messages: list[Any], tree: int) -> None:
        waiting, n_leaves = [(-1, 0, 0, False)], 0
        for message in messages:
            parent, side, depth, below = waiting.pop()
            is_leaf = not message.HasField("condition")
            number = ~len(self.leaves) if is_leaf else len(self.conditions)
            if parent < 0:
                self.root.append(number)
            else:
                self.children[parent][side] = number
            if is_leaf:
                self.leaves.append(message)
                self.depth.append(depth)
                self.leaf_id.append(n_leaves)
                self.tree.append(tree)
                n_leaves += 1
                continue
            condition = message.condition
            self.conditions.append(condition)
            self.children.append([0, 0])
            self.below_oblique.append(below)
            below = below or condition.condition.HasField("oblique_condition")
            waiting += [(number, 1, depth + 1, below), (number, 0, depth + 1, below)]

    def number(self, condition: Any) -> np.float32 | None:
        """Return what a number must reach at a node, or nothing if it tests something else."""
        kind = condition.condition
        if kind.HasField("higher_condition"):
            return _F32(kind.higher_condition.threshold)
        if kind.HasField("discretized_higher_condition"):
            bins = self.columns[condition.attribute].discretized_numerical.boundaries
            return _F32(bins[kind.discretized_higher_condition.threshold - 1])
        return None

    def mean(self, column: int) -> np.float32:
        """Return what stands in for a missing number."""
        with np.errstate(over="ignore"):
            return _F32(self.columns[column].numerical.mean)

    def means_lead_as_nodes_say(self) -> bool:
        """Return whether the mean of a missing number goes where all nodes send missing values."""
        for condition, below in zip(self.conditions, self.below_oblique, strict=True):
            threshold = None if below else self.number(condition)
            if threshold is not None and condition.na_value != bool(
                self.mean(condition.attribute) >= threshold
            ):
                return False
        return True

    def adds_to_base(self) -> bool:
        """Return whether YDF's QuickScorer answers, which adds trees of one output to the base."""
        fields = ("na_condition", "oblique_condition")
        taken = not any(
            one.condition.HasField(field) for one in self.conditions for field in fields
        )
        return taken and len(self.root) < 1 << 16 and max(np.bincount(self.tree), default=0) <= 64

    def tests(self) -> NodeTests:
        """Return what the nodes test: a row goes right where its condition is true."""
        means = self.means_lead_as_nodes_say()
        n = len(self.conditions)
        column: list[int] = []
        weight: list[float] = []
        substitute: list[float] = []
        count, codes = np.ones(n, np.int64), [np.zeros(0, np.int64)] * n
        b, relation = np.zeros(n, _F32), np.full(n, Relation.GREATER_EQUAL)
        is_set, missing_right, other_right = np.zeros((3, n), bool)
        for node, condition in enumerate(self.conditions):
            kind, spec = condition.condition, self.columns[condition.attribute]
            threshold = self.number(condition)
            read, weights, replacements = [condition.attribute], [1.0], [np.nan]
            if threshold is not None:
                b[node] = threshold
                missing_right[node] = (
                    self.mean(condition.attribute) >= threshold if means else condition.na_value
                )
            elif kind.HasField("true_value_condition"):
                b[node] = 0.5
                missing_right[node] = spec.boolean.count_true >= spec.boolean.count_false
            elif kind.HasField("oblique_condition"):
                oblique = kind.oblique_condition
                b[node] = oblique.threshold
                read, weights = list(oblique.attributes), list(oblique.weights)
                replacements = [float(self.mean(one)) if means else np.nan for one in read]
                count[node] = len(read)
            elif kind.HasField("na_condition") and not _has_words(spec):
                b[node], relation[node], missing_right[node] = np.inf, Relation.GREATER, True
            else:
                is_set[node] = True
                codes[node], missing_right[node], other_right[node] = _set(kind, spec)
            column += [self.place[one] for one in read]
            weight += weights
            substitute += replacements
        set_ptr, set_words = set_bits(codes)
        replaced = np.array(substitute, _F32)
        return from_rows(
            np.concatenate([[0], np.cumsum(count)]),
            column,
            weight,
            b,
            kind=np.where(is_set, Kind.SET, Kind.MARGIN),
            relation=relation,
            missing_right=missing_right,
            other_right=other_right,
            set_ptr=set_ptr,
            set_words=set_words,
            substitute=None if np.all(np.isnan(replaced)) else replaced,
        )


def _has_words(spec: Any) -> bool:
    return bool(spec.type == _CATEGORICAL and not spec.categorical.is_already_integerized)


def _set(kind: Any, spec: Any) -> tuple[Array, bool, bool]:
    """Return the codes that go right, and whether missing ones do and those of no category.

    Code 0 stands for those. The code after the last is the empty string, which is missing.
    """
    size = spec.categorical.number_of_unique_values
    if kind.HasField("na_condition"):
        return np.array([size]), True, False
    if kind.HasField("contains_condition"):
        member = np.isin(np.arange(size), list(kind.contains_condition.elements))
    else:
        words = np.frombuffer(kind.contains_bitmap_condition.elements_bitmap, np.uint8)
        member = np.unpackbits(words, bitorder="little")[:size].astype(bool)
    missing, unknown = bool(member[spec.categorical.most_frequent_value]), bool(member[0])
    n_known = size + _has_words(spec)
    right = np.full(-(-n_known // WORD_BITS) * WORD_BITS, unknown)
    right[:size] = member
    if n_known > size:
        right[size] = missing
    return np.flatnonzero(right), missing, unknown


def source_trees(model: Any) -> SourceTrees:
    """Return the trees of a model of ydf; leaves are numbered as `predict_leaves` does."""
    walk = _Walk(model)
    v, stated = _answers(model, walk)
    children = np.array(walk.children, np.int64).reshape(-1, 2)
    n_outputs = len(stated["base_score"])
    return SourceTrees(
        tests=walk.tests(),
        left=children[:, 0],
        right=children[:, 1],
        root=np.array(walk.root, np.int64),
        leaf_id=np.array(walk.leaf_id, np.int64),
        v=v,
        row_dtype=np.dtype(_F32),
        n_features=len(walk.place),
        output=(np.array(walk.tree) % n_outputs).astype(np.int32)
        if v.shape[1] < n_outputs
        else None,
        stated=stated,
    )


def _answers(model: Any, walk: _Walk) -> tuple[Array, dict[str, Any]]:
    """Return what the leaves hold, and what else the model states."""
    classes = list(model.label_classes()) if model.task().name == "CLASSIFICATION" else []
    n_trees = _F32(model.num_trees())
    stated: dict[str, Any] = {
        "dtype": _F32,
        "aggregate": "sum",
        "base_score": np.zeros(1, _F32),
        "divisor": None,
        "tree_weight": None,
        "scale": None,
        "classes": (np.array(classes),) if classes else None,
    }
    if hasattr(model, "initial_predictions"):
        base = np.array(model.initial_predictions(), _F32)
        stated |= {"base_score": base, "base_first": base.size == 1 and walk.adds_to_base()}
        if classes:
            several = len(classes) > 2
            link = PostTransform.SOFTMAX_UNSHIFTED if several else PostTransform.SIGMOID
            stated["post_transform"] = PostTransform.IDENTITY if model.output_logits() else link
        return _numbers(walk), stated
    if hasattr(model, "num_examples_per_tree"):
        stated["parameter"] = float(_path_length(model.num_examples_per_tree()))
        stated["post_transform"] = PostTransform.EXPONENTIAL_STANDARD_RATIO
        v = [
            (_F32(depth) + _path_length(leaf.anomaly_detection.num_examples_without_weight))
            / n_trees
            for leaf, depth in zip(walk.leaves, walk.depth, strict=True)
        ]
        return np.array(v, _F32)[:, None], stated
    if not classes:
        return _numbers(walk) / n_trees, stated | {"post_transform": PostTransform.IDENTITY}
    shares = np.zeros((len(walk.leaves), len(classes)), _F32)
    for share, leaf in zip(shares, walk.leaves, strict=True):
        held = leaf.classifier
        if model.winner_takes_all():
            share[held.top_value - 1] = _F32(1) / n_trees
        else:
            total = held.distribution.sum * model.num_trees()
            share[:] = np.array(held.distribution.counts[1:]) / total
    shares = shares[:, 1:] if len(classes) == 2 else shares
    stated["base_score"] = np.zeros(shares.shape[1], _F32)
    return shares, stated | {"post_transform": PostTransform.AT_MOST_ONE}


def _numbers(walk: _Walk) -> Array:
    values = [leaf.regressor.top_value for leaf in walk.leaves]
    return np.array(values, _F32)[:, None]


def _path_length(n_examples: int) -> np.float32:
    """Return the expected depth of an example among others, as YDF has it in float32."""
    if n_examples < 2:
        return _F32(0)
    if n_examples == 2:
        return _F32(1)
    others, n = _F32(n_examples) - _F32(1), _F32(n_examples)
    harmonic = _F32(np.log(np.float64(others))) + _F32(0.5772156649)
    return _F32(_F32(2) * harmonic - _F32(2) * others / n)
