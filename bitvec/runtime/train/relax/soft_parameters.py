"""The numbers of a relaxed forest that may move, and the units in which they are held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.relax import kernel_gate, scaling
from bitvec.runtime.train.relax.aggregation import divisor
from bitvec.runtime.train.relax.dense_rows import DenseRows, is_plain, may_turn_dense
from bitvec.runtime.train.relax.dtypes import OfDtype
from bitvec.runtime.train.relax.feature_layers import FixedMap, Relax
from bitvec.runtime.train.relax.feature_margins import ColumnUnits
from bitvec.runtime.train.relax.leaf_functions import LeafFunctions
from bitvec.runtime.train.relax.learned_columns import LearnedColumns
from bitvec.runtime.train.relax.relaxations import Relaxation
from bitvec.runtime.train.relax.soft_rows import reading
from bitvec.runtime.train.relax.trainable import find as find_trainable

SMALLEST_LOGIT = 1e-6
"""Probability that smaller ones are raised to when leaves become logits."""

LeafForm = Literal["values", "logits"]


class SoftParameters(OfDtype):
    """S, b, r, v, the base score and φ of a forest, as `SoftForest` describes them.

    Parameters
    ----------
    forest : Forest
    relaxation : Relaxation
    trainable : names, or a mapping from them
        See `trainable.find`.
    dtype : torch.float32 or torch.float64
        Of parameters.
    leaves : "values" or "logits"
    relax : callable
        Makes the module of a forest inside of φ.
    """

    leaf_weight: Tensor
    divisor: Tensor
    leaf_output: Tensor | None
    infinite_leaves: Tensor | None
    is_fixed: Tensor
    b_moves: Tensor
    v_moves: Tensor
    start_b: Tensor
    start_v: Tensor

    def __init__(
        self,
        forest: Forest,
        relaxation: Relaxation,
        *,
        trainable: Iterable[str] | Mapping[str, Any],
        dtype: torch.dtype,
        leaves: LeafForm,
        relax: Relax,
    ) -> None:
        super().__init__(dtype)
        self.forest, self.relaxation, self.leaves = forest, relaxation, leaves
        self.reading = reading(forest)
        self.may_move = find_trainable(trainable, forest)
        self.trainable = self.may_move.names
        self._partial = {
            name: name in self.trainable and not bool(getattr(self.may_move, name).all())
            for name in ("b", "v")
        }
        feature_map, n_columns = forest.feature_map, forest.n_features
        self.phi: LearnedColumns | None = None
        self.columns: FixedMap | None = None
        if feature_map is not None:
            n_columns = feature_map.n_features
            if "phi" in self.trainable:
                self.phi = LearnedColumns(forest, dtype=dtype, relax=relax)
            else:
                self.columns = FixedMap(feature_map, self.reading.dtype)
        self.leaf_functions: LeafFunctions | None = None
        if forest.leaves.linear is not None:
            self.leaf_functions = LeafFunctions(
                forest.leaves, forest.n_outputs, moves="v" in self.trainable, dtype=dtype
            )
        v, base_score = self.start()
        constant = self.leaf_functions is None
        self.v = nn.Parameter(v, requires_grad="v" in self.trainable and constant)
        self.base_score = nn.Parameter(base_score, requires_grad="base_score" in self.trainable)
        output = forest.leaves.output
        self._hold(
            leaf_weight=self._leaf_weight().to(dtype),
            divisor=torch.tensor(divisor(forest), dtype=dtype),
            leaf_output=None if output is None else torch.tensor(output.astype(np.int64)),
            v_moves=torch.tensor(self.may_move.v),
            start_v=v.clone(),
        )
        self._find_infinite()
        self._set_scaling(scaling.unit(n_columns, forest.n_nodes))

    def _hold(self, **tables: Tensor | None) -> None:
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def _leaf_weight(self) -> Tensor:
        weight, ptr = self.forest.output.tree_weight, self.forest.bitvectors.leaf_ptr
        if weight is None:
            weight = np.ones(self.forest.n_trees)
        return torch.tensor(np.repeat(weight.astype(np.float64), np.diff(ptr)))

    def _find_infinite(self) -> None:
        infinite = ~self.start_v.isfinite().all(dim=1)
        at = torch.nonzero(infinite)[:, 0] if bool(infinite.any()) else None
        self._hold(infinite_leaves=at)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return where `v` and `base_score` start, on the CPU."""
        base_score = torch.tensor(self.forest.output.base_score, dtype=self.dtype)
        return torch.tensor(self._exact_v(), dtype=self.dtype), base_score

    def _exact_v(self) -> Array:
        v = self.forest.leaves.v.astype(np.float64)
        return np.log(np.maximum(v, SMALLEST_LOGIT)) if self.leaves == "logits" else v

    def starts(self) -> dict[str, Tensor]:
        """Return the exact numbers that parameters and buffers started from."""
        v, b = torch.tensor(self._exact_v()), torch.tensor(self._exact_b)
        return {
            "v": v,
            "start_v": v,
            "b": b,
            "start_b": b,
            "base_score": torch.tensor(self.forest.output.base_score, dtype=torch.float64),
            "leaf_weight": self._leaf_weight(),
            "divisor": torch.tensor(divisor(self.forest), dtype=torch.float64),
        }

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = self.dtype
        super()._apply(fn, recurse)
        if self.dtype != before:
            self._find_infinite()
        return self

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.v.device

    def thresholds(self) -> Tensor:
        """Return b, (n_nodes,), as it is read: what may not move is where it started."""
        if not self._partial["b"]:
            return self.b
        return torch.where(self.b_moves, self.b, self.start_b)

    def leaf_vectors(self) -> Tensor:
        """Return v, (n_leaves, width): the parameter, or the softmax of logits."""
        v: Tensor = self.v
        if self._partial["v"]:
            v = torch.where(self.v_moves[:, None], v, self.start_v)
        return torch.softmax(v, dim=1) if self.leaves == "logits" else v

    def _set_scaling(self, units: scaling.Scaling) -> None:
        tests, moves = self.forest.tests, self.may_move
        self.scaling, place = units, self.device
        dense = may_turn_dense(tests, units) & (moves.S | (moves.r & ~is_plain(tests)))
        if self.relaxation.gate == "kernel":
            dense &= ~kernel_gate.box_nodes(self.forest)
        self._exact_b = np.zeros(tests.n_nodes)
        self.rows: DenseRows | None = None
        if dense.any():
            self.rows = DenseRows(
                tests, np.flatnonzero(dense), units, trainable=moves, dtype=self.dtype
            )
            self._exact_b[dense] = self.rows.start_b
        start = torch.tensor(self._exact_b, dtype=self.dtype)
        self.b = nn.Parameter(start.clone(), requires_grad="b" in self.trainable)
        self._hold(is_fixed=torch.tensor(~dense), start_b=start, b_moves=torch.tensor(moves.b))
        self.units = ColumnUnits(units.center, units.spread)
        self.to(place)
