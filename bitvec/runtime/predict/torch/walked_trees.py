"""Shared parts of trees that are walked: their tables, and the gathers of a step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.runtime.predict.torch.call_modes import is_compiled
from bitvec.runtime.predict.torch.host_arrays import register

Source = Callable[[], Tensor]
"""Returns int64 (n_compared,): where each compared column is among others."""


class WalkedTrees(nn.Module):
    """Trees whose tables compiled code reads with int64, and eager calls with int32, both faster.

    The narrow copies are made at the first such call, and anew once the tables are others.

    Parameters
    ----------
    trees : int64, (n_trees,)
        Their numbers in the forest, in the order of the answers.
    accepts_equal : bool
        Whether h is x >= b rather than x > b.
    **tables : arrays by name, of whole numbers and of F, which become buffers
    """

    INDICES: tuple[str, ...]
    """The tables that eager calls take in int32; "column" ends the names of those of columns."""

    def __init__(self, trees: Array, accepts_equal: bool, **tables: Array) -> None:
        super().__init__()
        self.trees, self.n_trees, self.accepts_equal = trees, len(trees), accepts_equal
        register(self, **tables)
        self._narrow: tuple[Tensor, dict[bool, list[Tensor]]] | None = None
        self.register_load_state_dict_post_hook(_forget)  # type: ignore[no-untyped-call]

    def narrow(self, source: Source | None = None) -> list[Tensor]:
        """Return the tables of indices in int32, where they fit, for the columns of a source."""
        first, key = self.get_buffer(self.INDICES[0]), source is not None
        if self._narrow is None or self._narrow[0] is not first:
            self._narrow = first, {}
        made = self._narrow[1]
        if key not in made:
            wide = [self.get_buffer(name) for name in self.INDICES]
            if source is not None:
                own = source()
                for at, name in enumerate(self.INDICES):
                    if name.endswith("column"):
                        wide[at] = own[wide[at]]
            fits = all(int(table.max()) < 2**31 for table in wide)
            made[key] = self.made_ready([one.to(torch.int32) if fits else one for one in wide])
        return made[key]

    def made_ready(self, tables: list[Tensor]) -> list[Tensor]:
        """Return the tables of indices as eager calls read them."""
        return tables

    def exceeds(self, x: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """Return h; into integers, which are added faster than booleans, if they are given."""
        if out is None:
            return x >= b if self.accepts_equal else x > b
        return (torch.ge if self.accepts_equal else torch.gt)(x, b, out=out)


def _forget(module: WalkedTrees, _: object) -> None:
    module._narrow = None


def flat(V: Tensor) -> tuple[Tensor, Tensor]:
    """Return all values on one axis, and where each row of them starts."""
    batch, width = V.shape
    return V.reshape(-1), torch.arange(batch, device=V.device) * width


def take(table: Tensor, index: Tensor) -> Tensor:
    """Return the elements of a table of one axis, by an index of any shape."""
    if is_compiled():  # which checks and turns negative indices, unless they are an embedding's
        return torch.embedding(table[:, None], index).squeeze(-1)
    # On a CPU faster than table[index] for an index of two axes.
    return table.index_select(0, index.reshape(-1)).view(index.shape)
