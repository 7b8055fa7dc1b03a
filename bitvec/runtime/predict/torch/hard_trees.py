"""Exit leaves of all trees, each in its form: by products with B, padded, or level by level."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch import forms
from bitvec.runtime.predict.torch.compared_columns import ComparedColumns
from bitvec.runtime.predict.torch.flat_trees import FlatTrees, flatten
from bitvec.runtime.predict.torch.forms import Choice
from bitvec.runtime.predict.torch.host_arrays import register
from bitvec.runtime.predict.torch.matrix import MatrixTrees, multiply
from bitvec.runtime.predict.torch.padded_trees import PaddedTrees, pad
from bitvec.runtime.predict.torch.walked_trees import Source


class HardTrees(nn.Module):
    """Exit leaves of all trees: compared columns to int64 (n_trees, batch).

    Parameters
    ----------
    B : Bitvectors
    depth : int, (n_trees,)
    compared : ComparedColumns
    choice : Choice
        The form of each tree.

    Attributes
    ----------
    n_products : int
        Elements that a row takes in products.
    """

    order: Tensor

    def __init__(
        self, B: Bitvectors, depth: Array, compared: ComparedColumns, choice: Choice
    ) -> None:
        super().__init__()
        parts: list[MatrixTrees | PaddedTrees | FlatTrees] = []
        for accepts_equal in (False, True):
            alike = compared.accepts_equal == accepts_equal
            tables = compared.node_column, compared.b, accepts_equal
            for form in forms.FORMS[1:]:
                trees = np.flatnonzero(alike & (choice.form == form))
                if not trees.size:
                    continue
                if form == forms.MATRIX:
                    parts += multiply(B, trees, *tables)
                else:
                    make = pad if form == forms.PERFECT else flatten
                    parts.append(make(B, trees, depth, *tables))
        self.parts = nn.ModuleList(parts)
        products = [part.B.shape for part in parts if isinstance(part, MatrixTrees)]
        self.n_products = sum(n * (leaves + 2 * nodes) for n, leaves, nodes in products)
        trees = np.concatenate([np.zeros(0, np.int64), *(part.trees for part in parts)])
        self.in_order = bool(np.all(trees == np.arange(trees.size)))
        register(self, order=np.argsort(trees))

    def forward(self, V: Tensor, source: Source | None = None) -> Tensor:
        """Return the forest's leaf index of every tree and row; see `WalkedTrees` on a source."""
        if not self.parts:
            return self.order[:, None].expand(0, V.shape[0])
        given = (V,) if source is None else (V, source)
        first, *others = [part(*given) for part in self.parts]
        leaves: Tensor = torch.cat([first, *others]) if others else first
        return leaves if self.in_order else leaves.index_select(0, self.order)
