"""Memberships u of leaves from margins, by any relaxation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bitvec.runtime.train.relax import gates, leaf_maps
from bitvec.runtime.train.relax.kernel_gate import KernelGate, kernel_turns
from bitvec.runtime.train.relax.path_layout import PathLayout, path_sum
from bitvec.runtime.train.relax.path_products import path_product, sigmoid_paths
from bitvec.runtime.train.relax.relaxations import PRODUCT, Relaxation
from bitvec.runtime.train.relax.scores import scores


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Margins and outcomes of a batch: all are (n_nodes, batch) in level order.

    Parameters
    ----------
    value : float
        m, finite unless a value overflows, in units of each node's scale.
    hard : bool, optional
        Where a test passes as 0 or 1, without gradient; nowhere if not given.
    right : bool, optional
        h, read where `hard`, and everywhere by `straight_through`.
    """

    value: Tensor
    hard: Tensor | None = None
    right: Tensor | None = None

    def settled(self) -> Tensor:
        """Return m, ± infinity where a test passes hard."""
        if self.hard is None or self.right is None:
            return self.value
        turn = torch.where(self.right, torch.inf, -torch.inf)
        return torch.where(self.hard, turn, self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Parameters of a relaxation beside margins.

    Parameters
    ----------
    layout : PathLayout
    gamma : float
    dtype : torch.dtype
        In which gates and recursions run.
    kernel : KernelGate, optional
        Of the kernel gate, which also reads the raw columns: `raw`, (n_columns, batch).
    """

    layout: PathLayout
    gamma: float
    dtype: torch.dtype
    kernel: KernelGate | None = None
    raw: Tensor | None = None


def memberships(relaxation: Relaxation, margins: Margins, setting: Setting) -> Tensor:
    """Return u, (n_leaves, batch), in the setting's dtype; leaf maps of bfloat16 in float32."""
    if relaxation.leaf_map == PRODUCT:
        assert isinstance(relaxation.gate, str)
        return _PRODUCTS[relaxation.gate](margins, setting)
    project = leaf_maps.LEAF_MAPS[relaxation.leaf_map]
    return leaf_maps.per_tree(project, _scores(relaxation, margins, setting), setting.layout)


def log_memberships(relaxation: Relaxation, margins: Margins, setting: Setting) -> Tensor:
    """Return log u, (n_leaves, batch): −inf, without gradient, where u is 0."""
    if relaxation.leaf_map == "softmax":
        score = _scores(relaxation, margins, setting)
        return leaf_maps.per_tree(leaf_maps.log_softmax, score, setting.layout)
    if relaxation.has_logarithms:
        return path_sum(gates.log_sigmoid_turns(_steep(margins, setting)), setting.layout)
    u = memberships(relaxation, margins, setting)
    return torch.where(u > 0, torch.where(u > 0, u, 1).log(), -torch.inf)


def _scores(relaxation: Relaxation, margins: Margins, setting: Setting) -> Tensor:
    assert relaxation.score is not None
    gate = relaxation.gate
    if isinstance(gate, str):
        gate = (gates.SHARES | gates.ACTIVATIONS)[gate]
    steep = (setting.gamma * margins.value).to(setting.dtype)
    return scores(
        relaxation.score, gate, setting.layout, steep, margins.hard, margins.right, setting.gamma
    )


def _steep(margins: Margins, setting: Setting) -> Tensor:
    """Return gamma · m, ± infinity where a test passes hard."""
    return (setting.gamma * margins.settled()).to(setting.dtype)


def _sigmoid(margins: Margins, setting: Setting) -> Tensor:
    return sigmoid_paths(_steep(margins, setting), setting.layout)


def _smooth_step(margins: Margins, setting: Setting) -> Tensor:
    return path_product(gates.smooth_turns(_steep(margins, setting)), setting.layout)


def _kernel(margins: Margins, setting: Setting) -> Tensor:
    assert setting.kernel is not None
    assert setting.raw is not None
    turns = kernel_turns(
        setting.kernel, margins.value, margins.hard, margins.right, setting.raw, setting.gamma
    )
    return path_product(turns.to(setting.dtype), setting.layout)


def _straight_through(margins: Margins, setting: Setting) -> Tensor:
    assert margins.right is not None
    layout = setting.layout
    leaf = layout.exit_leaves(margins.right)
    shape = (layout.n_leaves, leaf.shape[1])
    hard = margins.value.new_zeros(shape, dtype=setting.dtype).scatter(0, leaf, 1.0)
    if not torch.is_grad_enabled():
        return hard
    return gates.straight_through(_sigmoid(margins, setting), hard)


_PRODUCTS: dict[str, Callable[[Margins, Setting], Tensor]] = {
    "sigmoid": _sigmoid,
    "noisy_or": _sigmoid,
    "smooth_step": _smooth_step,
    "kernel": _kernel,
    "straight_through": _straight_through,
}
