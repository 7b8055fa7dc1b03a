"""A hard forest as a torch module: tensors in, exact answers out, for compilers of graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bitvec.core import tree_paths
from bitvec.core.forest import Forest, require_forest
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict.torch import devices, forms
from bitvec.runtime.predict.torch.call_modes import SCALAR, is_plain
from bitvec.runtime.predict.torch.compared_columns import lay_out
from bitvec.runtime.predict.torch.hard_columns import HardColumns
from bitvec.runtime.predict.torch.hard_key_tables import HardLookup, is_looked_up
from bitvec.runtime.predict.torch.hard_links import Labels, Probabilities
from bitvec.runtime.predict.torch.hard_sums import HardSums, rows_of
from bitvec.runtime.predict.torch.hard_trees import HardTrees
from bitvec.runtime.predict.torch.host_arrays import register
from bitvec.runtime.predict.torch.unrounded import Unrounded

OUTPUTS = ("raw", "probabilities", "label", "leaves", "memberships")
ELEMENTS = 1 << 17
"""Elements, such as (tree, row) pairs, that eager calls on a CPU take at a time, in its cache."""
BUDGET = 1 << 29
"""Bytes of intermediate results that they hold at a time, about: addresses are int32 besides."""
COMPILED_ROWS = 1 << 10
"""Rows that a call of a module compiled in place takes at a time on a CPU, or more of few trees:
as many as have half of `ELEMENTS`."""


class HardForest(Unrounded):
    """A hard forest over tensors, whose raw scores and leaves are the reference's bit for bit.

    All that it holds are buffers, and no step depends on the values of rows, so that
    `torch.compile(fullgraph=True)` and `torch.export.export` with a dynamic batch take it.

    Parameters
    ----------
    forest : Forest
        Without a prediction kernel, or a feature map other than key tables.
    output : {"raw", "probabilities", "label", "leaves", "memberships"}
        Raw scores F (batch, n_outputs); probabilities (batch, n_classes) of a classifier; its
        labels (batch,), where texts are given by their index in `classes`; int64 (batch, n_trees),
        leaf numbers within each tree; or F (batch, n_leaves), 1 at the leaf of each tree that a
        row exits in, else 0.
    form : {"auto", "matrix", "perfect", "levels"}
        How trees run: as products with B, padded to a full depth, or level by level. Trees that
        the form cannot hold run level by level.
    device : torch.device or str, optional
        The CPU if not given.

    Attributes
    ----------
    dtype : torch.dtype
        Of rows, the one in which the forest compares; `.half()`, `.double()` and the like move the
        module but do not round it.
    classes : numpy array or None
        Labels of a classifier of one target.

    Raises
    ------
    InputError
        If an option is unknown, or the forest is no classifier where it must be.
    UnsupportedModelError
        If tensor operations do not hold the forest.

    Notes
    -----
    Probabilities are within a few units in the last place of the source's, whose exponential
    differs from torch's; so a label that rests on probabilities may differ where two of them are
    as close. Compiled for a GPU, products and sums may be fused, which rounds once instead of
    twice: answers of oblique and polytope nodes, linear leaves and scaled sums may differ there.
    Eager calls on a CPU take large tables in blocks of rows; else intermediate results are of size
    n_trees · batch, so that such tables are better handed over in parts. Threads that take
    subnormal numbers for zero (`torch.set_flush_denormal(True)`) decide otherwise about them.

    Examples
    --------
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> HardForest(stump)(torch.tensor([[0.0, 9.0], [1.0, 9.0]], dtype=torch.float64)).tolist()
    [[10.0], [20.0]]
    """

    first_leaf: Tensor
    answer_of_leaf: Tensor | None

    def __init__(
        self,
        forest: Forest,
        *,
        output: str = "raw",
        form: str = "auto",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        require_forest(forest)
        if output not in OUTPUTS:
            raise InputError(
                f"`output` must be one of {', '.join(OUTPUTS)}, got {output!r}: choose one of them."
            )
        _require_held(forest)
        self.lookup: nn.Module | None = None
        n_features = forest.n_features
        if forest.feature_map is not None:
            self.lookup = HardLookup(forest.feature_map)
            forest = of_columns(forest)
        place = devices.find(device)
        B = forest.bitvectors
        depth = tree_paths.tree_depth(B)
        compared = lay_out(forest)
        self.choice = forms.choose(B, depth, form, place.type)
        self.output, self.n_features = output, n_features
        self.dtype: torch.dtype = getattr(torch, str(forest.dtype))
        classes = forest.output.classes
        self.classes = classes[0] if classes is not None and len(classes) == 1 else None
        self.columns = HardColumns(forest, compared)
        self.trees = HardTrees(B, depth, compared, self.choice)
        self.register_buffer("first_leaf", torch.tensor(B.leaf_ptr[:-1])[:, None])
        self.n_leaves = forest.n_leaves
        self.sums = None if output in ("leaves", "memberships") else HardSums(forest)
        self.link: nn.Module | None = None
        register(self, answer_of_leaf=None)
        if output in ("probabilities", "label"):
            self.link = (Probabilities if output == "probabilities" else Labels)(forest.output)
            assert self.sums is not None
            if self.sums.raw_of_leaf is not None:  # of a lone tree the answer is its leaf's
                register(self, answer_of_leaf=self.link(self.sums.raw_of_leaf))
        self.to(place)

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...

    def forward(self, x: Tensor) -> Tensor:
        """Return the answers for rows.

        Parameters
        ----------
        x : Tensor, F (batch, n_features)
            Of the module's dtype, on its device, without a gradient.

        Raises
        ------
        InputError
            If it is another.
        """
        self._require_rows(x)
        return self._in_blocks(self._answers, x)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the module in place, by `torch.compile` with these arguments.

        Calls on a CPU then take large tables in blocks of rows, which stay in its cache, by plain
        loops unless `mode` or `options` say otherwise; what `torch.compile` itself returns takes a
        table as a whole, in vectors, which is slower.
        """
        if kwargs.get("backend", "inductor") == "inductor" and kwargs.get("mode") is None:
            kwargs["options"] = SCALAR | (kwargs.get("options") or {})
        # Compiled by itself, `forward` takes less time for few rows than `_call_impl` around it.
        alone = torch.compile(self.forward, *args, **kwargs)
        with_hooks = torch.compile(self._call_impl, *args, **kwargs)
        block = max(COMPILED_ROWS, ELEMENTS // max(1, 2 * len(self.first_leaf)))

        def in_blocks(x: Tensor) -> Tensor:
            run = with_hooks
            if not (self._forward_hooks or self._forward_pre_hooks):
                self._require_rows(x)  # what is raised inside is torch's own to tell
                run = alone
            if not is_plain(x) or x.shape[0] <= block:
                answers: Tensor = run(x)
                return answers
            return torch.cat([run(rows) for rows in torch.split(x, block)])

        self._compiled_call_impl = in_blocks

    def leaves(self, x: Tensor) -> Tensor:
        """Return leaf numbers within each tree, int64 (batch, n_trees), whatever `output` is."""
        self._require_rows(x)
        return self._in_blocks(self._leaves, x)

    def _in_blocks(self, answers: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or x.device.type != "cpu":
            return answers(x)
        block = max(1, min(ELEMENTS // self.width, BUDGET // self.held_for_a_row))
        if len(x) <= 2 * block:
            return answers(x)
        return torch.cat([answers(rows) for rows in torch.split(x, block)])

    @cached_property
    def width(self) -> int:
        """Elements that a call has for each row: trees that are walked, or nodes decided ahead."""
        return max(1, len(self.first_leaf), self.columns.n_decided)

    @cached_property
    def held_for_a_row(self) -> int:
        """Bytes of intermediate results that a row takes until its leaves are known, about."""
        # Compared columns with what decides them, places and addresses for each tree.
        n_trees = len(self.first_leaf)
        return 8 * (1 + 4 * self.columns.n_compared + 6 * n_trees + self.trees.n_products)

    def _leaves(self, x: Tensor) -> Tensor:
        number: Tensor = (self.exits(x) - self.first_leaf).T
        return number

    def exits(self, x: Tensor) -> Tensor:
        """Return the exit leaf of each tree among all leaves, int64 (n_trees, batch)."""
        x = x if self.lookup is None else self.lookup(x)
        if is_plain(x) and not self.trees.n_products and len(x) and self.columns.are_copies(x):
            leaf: Tensor = self.trees(x, self.columns.source)
        else:
            leaf = self.trees(self.columns(x))
        return leaf

    def _answers(self, x: Tensor) -> Tensor:
        if self.output == "leaves":
            return self._leaves(x)
        leaf = self.exits(x)
        if self.output == "memberships":
            none = torch.zeros((x.shape[0], self.n_leaves), dtype=self.dtype, device=x.device)
            return none.scatter(1, leaf.T, 1.0)
        assert self.sums is not None
        if self.answer_of_leaf is not None and self.sums.raw_of_leaf is not None:
            return rows_of(self.answer_of_leaf, leaf[0])
        raw: Tensor = self.sums(leaf, x)
        return raw if self.link is None else self.link(raw)

    def _require_rows(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise InputError(
                f"rows must be a torch tensor, got {type(x).__name__}: make one first."
            )
        if x.ndim != 2 or x.shape[1] != self.n_features:
            raise InputError(
                f"rows must have shape (batch, {self.n_features}), got {tuple(x.shape)}: "
                "pass the training columns."
            )
        if x.dtype != self.dtype:
            raise InputError(
                f"rows must be {self.dtype}, in which the forest compares, got {x.dtype}: "
                f"pass x.to({self.dtype})."
            )
        if x.device != self.first_leaf.device:
            raise InputError(
                f"rows must be on the module's device {self.first_leaf.device}, got {x.device}: "
                "move one of them by .to(device)."
            )
        if x.requires_grad and torch.is_grad_enabled():
            raise InputError(
                "rows must not require a gradient, which a hard forest does not have: pass "
                "x.detach(), or name a relaxation to train through the forest."
            )

    def extra_repr(self) -> str:
        """Return what `print` shows of the module."""
        return f"n_features={self.n_features}, dtype={self.dtype}, output={self.output!r}"


def _require_held(forest: Forest) -> None:
    if forest.kernel is not None and forest.n_trees:
        raise UnsupportedModelError(
            "a hard forest in torch must have no prediction kernel, whose scores are soft: "
            'take `to_torch(forest, "kernel")`, or drop `kernel` from the forest.'
        )
    feature_map, linear = forest.feature_map, forest.leaves.linear
    if feature_map is not None and (not is_looked_up(feature_map) or linear is not None):
        raise UnsupportedModelError(
            "a hard forest in torch must read its rows, got the feature map "
            f"{type(feature_map).__name__}: compute its columns by the map first, and drop "
            "it from the forest."
        )


def of_columns(forest: Forest) -> Forest:
    """Return the forest of the columns that its feature map makes, without terms of linear leaves.

    Those read rows that the map has not changed.
    """
    inputs = Inputs(forest.n_columns, missing_sentinel=forest.inputs.missing_sentinel)
    leaves = replace(forest.leaves, linear=None)
    return replace(forest, inputs=inputs, leaves=leaves, feature_map=None, source=None)
