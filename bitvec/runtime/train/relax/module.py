"""A forest as a torch module: the four arrays as parameters, its leaves softly reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest, require_forest
from bitvec.core.node_tests import MissingRule
from bitvec.errors import InputError
from bitvec.runtime.predict.cpu import layer_kernels
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.relax import (
    block_scores,
    relaxations,
    scaling,
    soft_leaves,
    tree_blocks,
)
from bitvec.runtime.train.relax.block_scores import Plan, Routing
from bitvec.runtime.train.relax.compiled_paths import CompiledPaths, compiled_paths, may_compile
from bitvec.runtime.train.relax.recomputation import Part
from bitvec.runtime.train.relax.relaxations import Relaxation, require_relaxable
from bitvec.runtime.train.relax.soft_parameters import LeafForm, SoftParameters
from bitvec.runtime.train.relax.soft_rows import Rows as Rows
from bitvec.runtime.train.relax.soft_rows import differentiable, host_rows, prepare
from bitvec.runtime.train.relax.tracing import is_traced
from bitvec.runtime.train.relax.trainable import find as find_trainable
from bitvec.runtime.train.relax.trainable import require_range
from bitvec.runtime.train.relax.tree_blocks import TreeBlock


class SoftForest(SoftParameters):
    """A relaxed forest: raw = base score + sum over leaves of u(x) · v, differentiable.

    Made by `from_forest`. Parameters that may move require a gradient:

    * `rows.S`, `rows.offset`, `rows.r`: the rows of S that are dense because S or r may move, in
      units of standardised columns and of each node's margin scale;
    * `b`, (n_nodes,), in units of each node's margin scale: a threshold where the node's rows are
      dense, elsewhere the distance by which the threshold has moved, so 0 is untouched;
    * `v`: leaf vectors, or their logits; where leaves are linear, `leaf_functions.v`, `.constant`
      and `.weight` instead, see `LeafFunctions`;
    * `base_score`;
    * `phi.map`: the feature map, see `feature_layers`; of a stacked forest its S, b and v.

    Where only a part of a parameter may move, the rest is read as it started, whatever an optimiser
    makes of it. Missing values, set tests and equality tests pass hard, without gradient; an
    infinite margin does too. Gradients are with respect to parameters, and to X where it is a
    tensor that requires one; codes and missing values have none.

    Compilers, exporters and transforms of torch take the module as it is, on tensors: what is then
    computed are the same formulas, of all trees at once.

    Trees are computed in runs (`tree_blocks`); where many are, the backward pass computes each run
    again, so that memory does not grow with the forest.

    Attributes
    ----------
    gamma : float
        Steepness, in units of each node's margin standard deviation (after `calibrate`).
    """

    def __init__(
        self,
        forest: Forest,
        relaxation: Relaxation,
        *,
        trainable: Iterable[str] | Mapping[str, Any] = ("S", "b", "v"),
        gamma: float = 1.0,
        dtype: torch.dtype = torch.float32,
        leaves: LeafForm = "values",
        routing: Routing = "auto",
        tree_chunk: int | None = None,
    ) -> None:
        self._blocks: dict[tuple[torch.device, bool, bool], list[TreeBlock]] = {}
        self._paths: CompiledPaths | None = None
        narrow = dtype == torch.bfloat16
        super().__init__(
            forest,
            relaxation,
            trainable=trainable,
            dtype=torch.float32 if narrow else dtype,
            leaves=leaves,
            relax=partial(SoftForest.from_forest, relaxation=relaxation, gamma=gamma, dtype=dtype),
        )
        self.gamma, self.tree_chunk = gamma, tree_chunk
        self._narrow = dtype if narrow else None
        is_dense = self.phi is not None or self.leaf_functions is not None
        self.routing: Routing = "dense" if is_dense else routing

    if TYPE_CHECKING:

        def __call__(self, X: Any) -> Tensor: ...

    def extra_repr(self) -> str:
        """Return what torch prints before the submodules."""
        trainable = ", ".join(self.trainable) or "nothing"
        return f"{self.forest}, {self.relaxation}, gamma={self.gamma:g}, trainable: {trainable}"

    @classmethod
    def from_forest(
        cls,
        forest: Forest,
        relaxation: str | Relaxation = "sigmoid",
        *,
        trainable: Iterable[str] | Mapping[str, Any] = ("S", "b", "v"),
        gamma: float = 1.0,
        dtype: torch.dtype = torch.float32,
        leaves: LeafForm = "values",
        device: torch.device | str | None = None,
        routing: Routing = "auto",
        tree_chunk: int | None = None,
    ) -> SoftForest:
        """Relax a forest.

        Parameters
        ----------
        relaxation : str or Relaxation
            A short name in `relaxations.RELAXATIONS`, or a gate, a leaf map and a score.
        trainable : names among "S", "b", "v", "r", "base_score", "phi", or a mapping from them
            What may move: see `trainable.find`. While S may not, axis-aligned tests stay
            axis-aligned; where it may, the rows of margin tests are dense (rows with substitutes or
            category indicators stay as they are, and so do those that the kernel gate reads). The
            offsets of a polytope's rows belong to S, the weights of linear leaves to v, and "phi"
            is the feature map.
        gamma : float
            Steepness, above 0.
        dtype : torch.float32, torch.float64 or torch.bfloat16
            In which the module computes. With bfloat16, parameters and margins are float32, gates
            and the products along paths are bfloat16, and sums over leaves are float32 again: each
            membership is off by up to 2⁻⁸ of itself per level.
        leaves : "values" or "logits"
            What the parameter `v` holds; with logits, leaf vectors are their softmax.
        device : torch.device or str, optional
            The CPU if not given.
        routing : "auto", "dense" or "sparse"
            Of `smooth_step`: every node of every row, or those only that are reached, which gives
            the same scores and gradients; by default the faster one, judged by a few rows. Only
            dense where leaves are linear or the feature map moves.
        tree_chunk : int, optional
            Trees that are computed together, and again in the backward pass. By default as many as
            stay in a cache, and again only where memory would grow large.

        Raises
        ------
        InputError
            If a name is unknown, parts of a relaxation do not fit, a number is out of place, torch
            cannot use the device, or a leaf vector or base score that may move is finite and too
            large for `dtype`.
        UnsupportedModelError
            If the forest has linear leaves that are to be logits, no trees, trees that are neither
            summed nor averaged, a prediction kernel that the relaxation does not read, or a feature
            map that is to move and cannot.
        """
        require_forest(forest)
        found = relaxations.find(relaxation)
        gamma, place = options.positive("gamma", gamma), devices.find(device)
        options.among("dtype", dtype, (torch.float32, torch.float64, torch.bfloat16))
        options.among("leaves", leaves, ("values", "logits"))
        options.among("routing", routing, ("auto", "dense", "sparse"))
        if routing == "sparse":
            block_scores.require_sparse(forest, found, find_trainable(trainable, forest).names)
        if tree_chunk is not None:
            tree_chunk = options.whole("tree_chunk", tree_chunk)
        require_relaxable(forest, found, leaves)
        module = cls(
            forest,
            found,
            trainable=trainable,
            gamma=gamma,
            dtype=dtype,
            leaves=leaves,
            routing=routing,
            tree_chunk=tree_chunk,
        )
        for name, given in (("v", forest.leaves.v), ("base_score", forest.output.base_score)):
            if name in module.trainable and given is not None:
                require_range(name, given, getattr(module, name).detach().numpy())
        return module.to(place)

    @torch.no_grad()
    def calibrate(self, X: Any) -> SoftForest:
        """Measure the units of columns and margins on rows, and start S, r and b from the forest.

        To be called before training: what these parameters learned, and the weights of linear
        leaves, is given up. Columns are those of the forest's own feature map.
        """
        x = self._inputs(X)
        if len(x) == 0:
            raise InputError("`X` must have at least one row to calibrate on, got none.")
        Z = layer_kernels.columns(self.forest, x)
        self._set_scaling(scaling.measure(self.forest, Z, self.device))
        if self.leaf_functions is not None:
            self.leaf_functions.calibrate(x)
        if self.phi is not None:
            self.phi.calibrate(x)
        return self

    def prepare(self, X: Any) -> Rows:
        """Standardise rows once, for many calls of `raw` on parts of them."""
        return prepare(
            self.forest,
            self._inputs(X),
            self.scaling,
            self._rules(),
            dtype=self.dtype,
            device=self.device,
            functions=self.leaf_functions,
            learned=self.phi is not None,
        )

    def forward(self, X: Any) -> Tensor:
        """Return soft raw scores, (batch, n_outputs)."""
        rows = self.ready(X)
        plan, total = self.plan(), None
        # Pairs that are visited alone have no gradient to columns; the recursion scores the same.
        if block_scores.may_be_sparse(plan) and not rows.raw.requires_grad:
            total = block_scores.sparse_total(plan, self.whole(), rows)
        if total is None:
            total = self._compiled_total(plan, rows)
        if total is None:
            again = self.tree_chunk is not None
            total = block_scores.total(plan, list(self.parts(rows)), rows, always_again=again)
        return self.finish(total)

    def _compiled_total(self, plan: Plan, rows: Rows) -> Tensor | None:
        b, vectors = self.thresholds(), self._vectors()
        chosen = self.tree_chunk is not None or self.phi is not None
        if chosen or not may_compile(plan, rows, b, vectors):
            return None
        if self._paths is None:
            self._paths = compiled_paths(self.forest, self.rows, self.scaling)
        if not self._paths.fits(rows):
            return None
        own = None if self.rows is None else self.rows.read()
        return self._paths.total(plan, b, own, vectors, rows)

    def memberships(self, X: Any) -> Tensor:
        """Return u, (batch, n_leaves): each tree's sum is 1."""
        rows = self.ready(X)
        found = block_scores.of_leaves(soft_leaves.memberships, self.plan(), self.parts(rows), rows)
        return found.T

    def log_memberships(self, X: Any) -> Tensor:
        """Return log u, (n_leaves, batch), not by way of u where the relaxation has logarithms.

        Where u is 0 it is −inf, without gradient. The gradient that a straight-through u has at a
        leaf that is not reached is therefore lost here, and only here: form its mixtures of
        `memberships`.
        """
        rows = self.ready(X)
        return block_scores.of_leaves(
            soft_leaves.log_memberships, self.plan(), self.parts(rows), rows
        )

    @torch.no_grad()
    def exit_leaves(self, X: Any) -> Tensor:
        """Return the hard exits in this module's arithmetic, as forest leaves (n_trees, batch)."""
        return block_scores.exit_leaves(self.plan(), self.parts(), self.ready(X))

    def hard(self, X: Any) -> Tensor:
        """Return raw scores, (batch, n_outputs), hard routing, in this module's arithmetic."""
        rows = self.ready(X if isinstance(X, Rows) else self.prepare(X))
        leaf = self.exit_leaves(rows)
        u = torch.zeros((self.forest.n_leaves, leaf.shape[1]), dtype=self.dtype, device=self.device)
        return self.combine(u.scatter_(0, leaf, 1.0), rows)

    def combine(self, u: Tensor, rows: Rows) -> Tensor:
        """Return raw scores, (batch, n_outputs), from memberships (n_leaves, batch) of rows."""
        if self.leaf_functions is not None:
            return self.finish(block_scores.sum_of_functions(self.plan(), u, rows))
        every = slice(0, self.forest.n_leaves)
        return self.finish(block_scores.sum_of(self.plan(), u, self._vectors(), every))

    def blocks(self, *, whole: bool = False, learned: bool = False) -> list[TreeBlock]:
        """Return the runs of trees that are computed together, or one of all trees.

        `learned` says that columns have a gradient, as they always do where φ moves.
        """
        place = (self.device, whole, learned or self.phi is not None)
        if place not in self._blocks:
            starts = [0, self.forest.n_trees]
            if not whole:
                starts = tree_blocks.runs_of_trees(self.forest, self.tree_chunk, self.device)
            self._blocks[place] = tree_blocks.blocks(
                self.forest,
                self.rows,
                self.scaling,
                starts=starts,
                with_kernel=self.relaxation.gate == "kernel",
                learned=place[2],
                device=self.device,
            )
        return self._blocks[place]

    def _inputs(self, X: Any) -> Array:
        return host_rows(X, self.forest.inputs, self.forest.dtype)

    def _rules(self) -> list[MissingRule]:
        return [] if self.rows is None else self.rows.rules

    def ready(self, X: Any) -> Rows:
        """Return rows with their columns, by tensor operations where these are to be followed."""
        rules, limit = self._rules(), self.scaling.limit
        if isinstance(X, Rows):
            rows = X
        elif isinstance(X, Tensor) and (
            is_traced() or (X.requires_grad and torch.is_grad_enabled())
        ):
            rows = differentiable(
                self.reading,
                X,
                self.units,
                rules,
                limit=limit,
                dtype=self.dtype,
                functions=self.leaf_functions,
                columns=self.columns,
                learned=self.phi is not None,
            )
        else:
            rows = self.prepare(X)
        if self.phi is None:
            return rows
        columns: Rows = self.phi(rows, self.units, rules, limit=limit, gamma=self.gamma)
        return columns

    def _vectors(self) -> Tensor:
        return self.leaf_vectors() * self.leaf_weight[:, None]

    def plan(self) -> Plan:
        """Return how blocks are computed."""
        return Plan(
            self.relaxation,
            self.gamma,
            self._narrow or self.dtype,
            self.routing,
            self.b if self.rows is None else self.rows.shift,
            self.leaf_output,
            self.forest.n_outputs,
            self.infinite_leaves,
            self.leaf_functions,
            self.leaf_weight,
        )

    def whole(self, *, learned: bool = False) -> Part:
        """Return all trees as one block, with the parameters; `learned` as of `blocks`."""
        (part,) = self._with_parameters(self.blocks(whole=True, learned=learned))
        return part

    def parts(self, rows: Rows | None = None) -> Iterator[Part]:
        """Yield each block with its part of the parameters, for rows that may have a gradient."""
        if is_traced():
            return self._with_parameters(self.blocks(whole=True, learned=True))
        learned = rows is not None and rows.raw.requires_grad
        return self._with_parameters(self.blocks(learned=learned))

    def _with_parameters(self, blocks: list[TreeBlock]) -> Iterator[Part]:
        rows = None if self.rows is None else self.rows.read()
        return tree_blocks.with_parameters(blocks, self.thresholds(), rows, self._vectors())

    def finish(self, total: Tensor) -> Tensor:
        """Return raw scores, (batch, n_outputs), of what all leaves add, (n_outputs, batch)."""
        return total.T / self.divisor + self.base_score

    def _set_scaling(self, units: scaling.Scaling) -> None:
        self._blocks, self._paths = {}, None
        super()._set_scaling(units)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        if self.device.type != "meta":
            self.blocks(whole=True, learned=True)  # a tracer finds made what it cannot make
        return self
