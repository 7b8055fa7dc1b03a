"""Products along the paths from root to leaf, without a division or a logarithm.

mu_child = mu_parent · s of the turn, level by level: O(n_nodes · batch) forward and backward, exact
where a factor is 0, and never clamped. Where a product is below the smallest positive number of its
dtype it is 0; `path_sum` of logarithms has no such end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitvec.runtime.train.relax.path_layout import PathLayout, at_slots, below
from bitvec.runtime.train.relax.tracing import is_traced, once_differentiable


class _PathProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, turns: Tensor, layout: PathLayout) -> Tensor:
        product = at_slots(turns, layout, torch.mul, 1)
        ctx.save_for_backward(turns, product)
        ctx.layout = layout
        return layout.leaves(product)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        turns, product = ctx.saved_tensors
        layout = ctx.layout
        # The gradient of each slot's product: a leaf's own, a node's sum over its two turns.
        slope = torch.empty_like(product)
        layout.set_leaves(slope, grads[0])
        result = torch.empty_like(turns)
        for level, (first, last) in reversed(list(enumerate(layout.levels))):
            start, stop = layout.children(level)
            both = slope[start:stop].view(last - first, 2, slope.shape[1])
            result[first:last] = both * layout.parents(product, level)[:, None]
            mixed = both * turns[first:last]
            layout.set_parents(slope, level, mixed[:, 0] + mixed[:, 1])
        return result, None


def path_product(turns: Tensor, layout: PathLayout) -> Tensor:
    """Return for each leaf the product of the factors of the turns on its path.

    Parameters
    ----------
    turns : float, (n_nodes, 2, batch)
        In level order, the factor of the left and of the right turn at each node; may be 0.

    Returns
    -------
    float, (n_leaves, batch)
        In the order of the layout's trees. Cost: O(n_nodes · batch), forward and backward.
    """
    if is_traced():
        return layout.leaves(at_slots(turns, layout, torch.mul, 1))
    result: Tensor = _PathProduct.apply(turns, layout)  # type: ignore[no-untyped-call]
    return result


class _SigmoidPaths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor, layout: PathLayout) -> Tensor:
        turns = torch.stack((-m, m), dim=1).sigmoid_()
        u = layout.leaves(at_slots(turns, layout, torch.mul, 1))
        ctx.save_for_backward(turns, u)
        ctx.layout = layout
        return u

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        turns, u = ctx.saved_tensors
        # d log s(m) / dm = s(−m): with A the sum of u · du over the leaves below a turn,
        # dm = A_right · s(−m) − A_left · s(m), and no inner product is needed.
        flow = below(grads[0] * u, ctx.layout)
        return (flow[:, 1] * turns[:, 0]).addcmul_(flow[:, 0], turns[:, 1], value=-1), None


def sigmoid_paths(m: Tensor, layout: PathLayout) -> Tensor:
    """Return for each leaf the product of sigmoid(± m) over its path.

    The same numbers as `path_product` of the sigmoids, with a backward pass that keeps fewer.

    Parameters
    ----------
    m : float, (n_nodes, batch)
        In level order; ± infinity is a turn that is taken, without a gradient.

    Returns
    -------
    float, (n_leaves, batch)
    """
    if is_traced():
        return path_product(torch.stack((-m, m), dim=1).sigmoid(), layout)
    result: Tensor = _SigmoidPaths.apply(m, layout)  # type: ignore[no-untyped-call]
    return result
