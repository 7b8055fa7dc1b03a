"""Hardening of the soft forests within a network, in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.torch.hard_forest import HardForest
from bitvec.runtime.train.relax.harden import harden
from bitvec.runtime.train.relax.module import SoftForest


class HardLayer(nn.Module):
    """A hard forest between layers: rows cast to its dtype, raw scores to that of the network.

    Parameters
    ----------
    hard : HardForest
    dtype : torch.dtype
        Of the raw scores that the next layer reads.
    """

    def __init__(self, hard: HardForest, dtype: torch.dtype) -> None:
        super().__init__()
        self.hard, self.dtype = hard, dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return raw scores (batch, n_outputs) of rows (batch, n_features) of any float dtype."""
        return self.hard(x.to(self.hard.dtype)).to(self.dtype)


def harden_(network: nn.Module) -> dict[str, Forest]:
    """Replace each soft forest within a network by its hard forest, and return these by name.

    Forests are hardened as by `bitvec.from_torch`. None is replaced unless all can be. A hard
    forest has no gradient: run the network under `torch.no_grad()`, or call
    `network.requires_grad_(False)` before it is run or exported.

    Parameters
    ----------
    network : torch.nn.Module
        Which holds modules of `bitvec.to_torch(forest, relaxation)`; each becomes a `HardLayer`.

    Returns
    -------
    dict
        Each forest by the name of its module in `network.named_modules()`. To certify the module on
        the features that reach it, call `bitvec.certify(forest, network.get_submodule(name).hard)`.

    Raises
    ------
    InputError
        If the network holds no soft forest, or is itself one.
    UnsupportedModelError
        If tensor operations do not hold a forest.
    InvalidForestError
        If a number that has moved is not finite.

    Examples
    --------
    >>> from bitvec.runtime.train.relax.module import SoftForest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> network = nn.Sequential(nn.ReLU(), SoftForest.from_forest(stump, "sigmoid"))
    >>> list(harden_(network))
    ['1']
    >>> network(torch.tensor([[-1.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """
    if isinstance(network, SoftForest):
        raise InputError(
            "a soft forest must be within a network to be replaced there, got the forest itself: "
            "call bitvec.to_torch(bitvec.from_torch(module))."
        )
    found = {name: one for name, one in network.named_modules() if isinstance(one, SoftForest)}
    if not found:
        raise InputError(
            f"a network must hold a soft forest to be hardened, got {type(network).__name__} with "
            "none: make one by bitvec.to_torch(forest, relaxation)."
        )
    forests = {name: harden(soft) for name, soft in found.items()}
    layers = {
        soft: HardLayer(HardForest(forests[name], device=soft.v.device), soft.v.dtype)
        for name, soft in found.items()
    }
    for parent in list(network.modules()):
        for child, module in parent.named_children():
            if isinstance(module, SoftForest):
                setattr(parent, child, layers[module].train(module.training))
    return forests
