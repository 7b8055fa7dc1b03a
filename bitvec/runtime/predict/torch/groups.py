"""The trees of a forest as groups that run alike, with what their places stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch import forms
from bitvec.runtime.predict.torch.compared_columns import ComparedColumns
from bitvec.runtime.predict.torch.flat_trees import FlatTrees, flatten
from bitvec.runtime.predict.torch.forms import Choice
from bitvec.runtime.predict.torch.matrix import MatrixTrees, multiply
from bitvec.runtime.predict.torch.outcomes import to_device
from bitvec.runtime.predict.torch.padded_trees import PerfectTrees, pad
from bitvec.runtime.predict.torch.path_traversal import PathTrees, follow

Tables = MatrixTrees | PerfectTrees | FlatTrees
"""Trees of plain comparisons of compared columns."""
Trees = Tables | PathTrees


@dataclass(frozen=True, eq=False)
class Group:
    """Trees of one form, and tables over the places in which their rows end.

    Parameters
    ----------
    trees : one of `Trees`
    members : int64, (n_trees,)
        The trees' positions in the forest.
    is_all : bool
        Whether they are all the trees of the forest, in order.
    slot_exit : int32, (n_slots,)
        Leaf numbers within the tree.
    slot_leaf : int64, (n_slots,)
        Leaf indices in the forest.
    slot_value : F, (n_slots,), optional
        What a leaf adds, where that is one constant.
    """

    trees: Trees
    members: Tensor
    is_all: bool
    slot_exit: Tensor
    slot_leaf: Tensor
    slot_value: Tensor | None

    @property
    def is_traversed(self) -> bool:
        """Return whether the trees are traversed on tables, by torch or by NumPy."""
        return isinstance(self.trees, PerfectTrees | FlatTrees)

    @property
    def held_for_a_row(self) -> int:
        """Elements that one row takes besides its places."""
        if isinstance(self.trees, MatrixTrees):
            n_trees, n_leaves, n_nodes = self.trees.B.shape
            return n_trees * (n_leaves + 2 * n_nodes)
        return 0

    @cached_property
    def array_trees(self) -> PerfectTrees | FlatTrees:
        """The trees for NumPy, made when few rows come for the first time."""
        assert isinstance(self.trees, PerfectTrees | FlatTrees)
        return self.trees.as_arrays()

    @cached_property
    def array_exits(self) -> Array:
        """`slot_exit` for NumPy, the same memory."""
        return self.slot_exit.numpy()

    @cached_property
    def array_leaves(self) -> Array:
        """`slot_leaf` for NumPy, the same memory."""
        return self.slot_leaf.numpy()

    @cached_property
    def array_values(self) -> Array:
        """`slot_value` for NumPy, the same memory."""
        assert self.slot_value is not None
        return self.slot_value.numpy()


def build(
    B: Bitvectors,
    depth: Array,
    compared: ComparedColumns,
    choice: Choice,
    device: torch.device,
) -> list[Tables]:
    """Return the tables of all trees but those that are followed node by node."""
    node_column, b = compared.node_column, compared.b
    parts: list[Tables] = []
    for accepts_equal in (False, True):
        alike = compared.accepts_equal == accepts_equal

        def of(form: str, alike: Array = alike) -> Array:
            trees = choice.trees(form)
            return trees[alike[trees]]

        trees = of(forms.MATRIX)
        if trees.size:
            parts += multiply(B, trees, node_column, b, accepts_equal, device)
        for form, make in ((forms.PERFECT, pad), (forms.LEVELS, flatten)):
            trees = of(form)
            if trees.size:
                parts.append(make(B, trees, depth, node_column, b, accepts_equal, device))
    return parts


def group_trees(
    forest: Forest,
    depth: Array,
    compared: ComparedColumns,
    choice: Choice,
    scalars: Callable[[Array], Tensor] | None,
    device: torch.device,
) -> list[Group]:
    """Return groups that together hold each tree once.

    Parameters
    ----------
    depth : int, (n_trees,)
    scalars : callable, optional
        What slots add, given their leaves: see `Sums.scalars`.
    """
    B = forest.bitvectors
    parts: list[Trees] = [*build(B, depth, compared, choice, device)]
    trees = choice.trees(forms.PATHS)
    if trees.size:
        tests = to_device(forest.tests, forest.inputs.missing_sentinel, device)
        parts.append(follow(B, trees, tests, device))
    tree_of_leaf = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
    number = (np.arange(B.n_leaves) - B.leaf_ptr[:-1][tree_of_leaf]).astype(np.int32)
    groups = []
    for part in parts:
        leaf = (
            part.slot_leaf if isinstance(part, PerfectTrees | FlatTrees) else np.arange(B.n_leaves)
        )
        groups.append(
            Group(
                part,
                torch.tensor(part.trees, device=device),
                np.array_equal(part.trees, np.arange(B.n_trees)),
                torch.tensor(number[leaf], device=device),
                torch.tensor(leaf, device=device),
                None if scalars is None else scalars(leaf),
            )
        )
    return groups
