"""Rules: one conjunction of conditions for each leaf, or for each class, of each tree.

All tests of a path that read one column become one set of its values, so that a rule names each
column once. Of each tree exactly one rule holds for each row, missing values, infinities and unseen
categories included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.directions import turns
from bitvec.core.key_intervals import (
    Values,
    complement,
    everything,
    intersection,
    right_values,
    union,
)
from bitvec.core.output import Aggregate
from bitvec.core.plain_text import number
from bitvec.core.rule_text import RuleTexts
from bitvec.core.shape_annotations import Bool, Float
from bitvec.core.transforms import predictions
from bitvec.core.tree_text import Trees, leaf_text
from bitvec.errors import InputError, UnsupportedModelError

Conditions = dict[int, Values]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Conditions that all hold for a row, and the leaf that it then reaches.

    Parameters
    ----------
    tree : int
    leaves : tuple of int
        Numbers of leaves within the tree: one, or those that were merged.
    conditions : dict from int to Values
        The values that each named column has; a column that is not named may have any.
    tests : tuple of (int, bool)
        Nodes of the forest that weigh several columns, and whether a row goes right there.
    value : F, (width,)
        The vector of the leaf; of merged leaves the first one's.
    cover : float or None
        Training weight that reached the leaves, where the source has it.
    label : object
        The class or value that the tree alone predicts, where rules are merged; else None.
    text : str
        The rule in words.
    """

    tree: int
    leaves: tuple[int, ...]
    conditions: Conditions
    tests: tuple[tuple[int, bool], ...]
    value: Float[Array, " width"]
    cover: float | None
    label: Any = None
    text: str = ""

    def __str__(self) -> str:
        return self.text


class Rules(Sequence[Rule]):
    """The rules of a forest, tree by tree; printing shows all.

    Leaves that no row can reach have none.
    """

    def __init__(self, forest: Trees, rules: tuple[Rule, ...], notes: tuple[str, ...]) -> None:
        self._forest, self._rules, self.notes = forest, rules, notes

    @overload
    def __getitem__(self, index: int) -> Rule: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Rule, ...]: ...
    def __getitem__(self, index: int | slice) -> Rule | tuple[Rule, ...]:
        return self._rules[index]

    def __len__(self) -> int:
        return len(self._rules)

    def matches(self, X: Any) -> Bool[Array, "batch n_rules"]:
        """Return which rules hold for which rows, by their conditions alone.

        Parameters
        ----------
        X : array of numbers, (batch, n_features)
            Categories as their codes.

        Raises
        ------
        InputError
            If it is another: columns of a frame are not found by name here.
        """
        tests, inputs = self._forest.tests, self._forest.inputs
        if isinstance(X, list | tuple):
            X = np.asarray(X)
        is_array = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
        if not is_array or X.ndim != 2 or X.shape[1] != inputs.n_features:
            got = f"{X.dtype} {X.shape}" if isinstance(X, np.ndarray) else type(X).__name__
            raise InputError(
                f"`X` must be an array of numbers of shape (batch, {inputs.n_features}), got "
                f"{got}: pass the training columns in order, categories as codes."
            )
        sentinel = inputs.missing_sentinel
        with np.errstate(over="ignore", invalid="ignore"):
            Z = X.astype(tests.dtype, copy=False)
        if self._forest.feature_map is not None:
            Z = self._forest.feature_map(Z)
        row = np.arange(len(Z))
        result = np.ones((len(Z), len(self)), bool)
        for at, rule in enumerate(self):
            for column, values in rule.conditions.items():
                result[:, at] &= values.holds(Z[:, column])
            for node, right in rule.tests:
                result[:, at] &= turns(tests, Z, row, np.full_like(row, node), sentinel) == right
        return result

    def __str__(self) -> str:
        lines = list(self.notes)
        for at, rule in enumerate(self):
            if at == 0 or self[at - 1].tree != rule.tree:
                lines.append(f"tree {rule.tree}")
            lines.append(f"  {rule}")
        return "\n".join(lines)


def rules_of(forest: Trees, *, merged: bool) -> Rules:
    """Return the rules of all trees; see `bitvec.core.forest.Forest.to_rules`."""
    if forest.kernel is not None:
        raise UnsupportedModelError(
            "rules need a forest that predicts hard, got a prediction kernel: drop it with "
            "dataclasses.replace(forest, kernel=None)."
        )
    found = list(_leaf_rules(forest))
    if merged:
        labels = _predicted(forest)
        first = forest.bitvectors.leaf_ptr
        named = (replace(r, label=labels[int(first[r.tree]) + r.leaves[0]]) for r in found)
        found = _merged(list(named), everything(forest.tests.dtype))
    texts = RuleTexts(forest)
    told = (replace(rule, text=_text(forest, texts, rule)) for rule in found)
    return Rules(forest, tuple(told), texts.notes)


def _predicted(forest: Trees) -> list[Any]:
    """Return what each tree alone predicts at each of its leaves, with the forest's base score."""
    leaves, output, B = forest.leaves, forest.output, forest.bitvectors
    if leaves.linear is not None:
        raise UnsupportedModelError(
            "rules that are merged need leaves that are constant, got leaves that are linear in x: "
            "use merged=False."
        )
    v = leaves.v.astype(output.dtype, copy=False)
    is_added = output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
    with np.errstate(over="ignore", invalid="ignore"):
        if output.tree_weight is not None and is_added:
            v = np.repeat(output.tree_weight, np.diff(B.leaf_ptr))[:, None] * v
        total = np.zeros((B.n_leaves, output.n_outputs), output.dtype)
        if output.base_first:
            total[:] = output.base_score
        if leaves.output is None:
            total += v
        else:
            total[np.arange(B.n_leaves), leaves.output] += v[:, 0]
        found = predictions(output, output.finish(total, 1)).tolist()
    return [tuple(one) if isinstance(one, list) else one for one in found]


def _text(forest: Trees, texts: RuleTexts, rule: Rule) -> str:
    leaf = int(forest.bitvectors.leaf_ptr[rule.tree]) + rule.leaves[0]
    outcome = leaf_text(forest, leaf) if rule.label is None else texts.label(rule.label)
    parts = [texts.condition(column, values) for column, values in sorted(rule.conditions.items())]
    parts += [texts.test(node, right) for node, right in rule.tests]
    notes = [f"leaf {rule.leaves[0]}" if len(rule.leaves) == 1 else f"{len(rule.leaves)} leaves"]
    notes += [] if rule.cover is None else [f"cover {number(rule.cover)}"]
    return f"if {' and '.join(parts) or 'true'}: {outcome} ({', '.join(notes)})"


def _leaf_rules(forest: Trees) -> Iterator[Rule]:
    """Yield a rule for each leaf that a row can reach, from left to right in each tree."""
    tests, B = forest.tests, forest.bitvectors
    covers = None if forest.source is None else forest.source.leaf_cover
    feature, dtype = tests.feature.tolist(), tests.dtype
    axis = np.flatnonzero(tests.feature >= 0)
    right_of = dict(
        zip(axis.tolist(), right_values(tests, axis, forest.inputs.missing_sentinel), strict=True)
    )
    left, right = structure.children(B)
    every = everything(dtype)
    for tree in range(B.n_trees):
        first = int(B.leaf_ptr[tree])
        root = ~first if B.leaf_ptr[tree + 1] - first == 1 else int(B.node_ptr[tree])
        todo: list[tuple[int, Conditions, tuple[tuple[int, bool], ...]]] = [(root, {}, ())]
        while todo:
            child, conditions, more = todo.pop()
            if child < 0:
                leaf = ~child
                yield Rule(
                    tree,
                    (leaf - first,),
                    {column: kept for column, kept in conditions.items() if kept != every},
                    more,
                    forest.leaves.v[leaf],
                    None if covers is None else float(covers[leaf]),
                )
                continue
            for side, goes_right in ((right[child], True), (left[child], False)):
                column = feature[child]
                if column < 0:
                    todo.append((int(side), conditions, (*more, (child, goes_right))))
                    continue
                values = right_of[child]
                values = values if goes_right else complement(values, dtype)
                kept = intersection(conditions.get(column, every), values)
                if kept:
                    todo.append((int(side), {**conditions, column: kept}, more))


def _merged(rules: list[Rule], every: Values) -> list[Rule]:
    """Join rules of one tree and label that differ in one column only, until none do."""
    columns = sorted({column for rule in rules for column in rule.conditions})
    n_before = -1
    while n_before != len(rules):
        n_before = len(rules)
        for column in columns:
            groups: dict[Any, Rule] = {}
            for rule in rules:
                others = {c: v for c, v in rule.conditions.items() if c != column}
                key = (rule.tree, rule.label, frozenset(others.items()), rule.tests)
                groups[key] = rule if key not in groups else _join(groups[key], rule, column, every)
            rules = list(groups.values())
    return sorted(rules, key=lambda rule: (rule.tree, rule.leaves))


def _join(a: Rule, b: Rule, column: int, every: Values) -> Rule:
    here, there = (rule.conditions.get(column, every) for rule in (a, b))
    conditions = {**a.conditions, column: union(here, there)}
    if conditions[column] == every:
        del conditions[column]
    cover = None if a.cover is None or b.cover is None else a.cover + b.cover
    leaves = tuple(sorted((*a.leaves, *b.leaves)))
    return replace(a, leaves=leaves, conditions=conditions, cover=cover)
