"""The columns of a feature map φ that moves: made anew in each pass, with gradient to φ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bitvec.core.arrays import Array
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.node_tests import MissingRule
from bitvec.runtime.train.relax import feature_layers
from bitvec.runtime.train.relax.dtypes import OfDtype
from bitvec.runtime.train.relax.feature_margins import ColumnUnits, standardise
from bitvec.runtime.train.relax.soft_rows import Rows, assembled, reading


class LearnedColumns(OfDtype):
    """The feature map of a forest as a module, which makes columns of rows of X.

    Parameters
    ----------
    forest : Forest
        With a feature map.
    dtype : torch.dtype
        In which φ computes.
    relax : callable
        Makes the `SoftForest` of a forest inside of φ; its units are measured and its steepness
        rises with those of the forest around it.
    """

    def __init__(self, forest: Forest, *, dtype: torch.dtype, relax: feature_layers.Relax) -> None:
        super().__init__(dtype)
        assert forest.feature_map is not None
        self.forest, self.reading = forest, reading(forest)
        inner: list[Any] = []

        def relaxed(stacked: Forest) -> nn.Module:
            inner.append(relax(stacked))
            return inner[-1]

        self.map = feature_layers.to_torch(
            forest.feature_map, trainable=True, dtype=dtype, relax=relaxed
        )
        self._inner = inner

    def forward(
        self,
        rows: Rows,
        units: ColumnUnits,
        rules: list[MissingRule],
        *,
        limit: float,
        gamma: float,
    ) -> Rows:
        """Return rows with the columns that φ makes of them now; as they are if they have them.

        Parameters
        ----------
        units : ColumnUnits
        rules : list of MissingRule
            Those of nodes that read standardised columns; without any, none are made.
        limit : float
            Of standardised values.
        gamma : float
        """
        if rows.x is None:
            return rows
        for soft in self._inner:
            soft.gamma = gamma
        Zt = self.map(rows.x).T.to(rows.x.dtype).contiguous()
        value = standardise(Zt, units, limit, self.dtype) if rules else None
        return assembled(Zt, value, self.reading, rules, rows.leaves)

    def calibrate(self, X: Array) -> None:
        """Measure the units of the forests inside of φ."""
        for soft in self._inner:
            soft.calibrate(X)

    def hardened(self, harden: Callable[[Any], Forest]) -> FeatureMap:
        """Return the feature map with the numbers that have moved."""
        assert self.forest.feature_map is not None
        return feature_layers.from_torch(self.map, self.forest.feature_map, harden=harden)
