"""Paths through complete trees: the share of a row at each leaf, and the gradient to each margin.

All trees have one depth, so no array of children is needed: node i of a level has the nodes 2 i and
2 i + 1 of the next one as its children. A run of rows passes through one tree while its numbers
stay in the nearest cache.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.train.relax.tracing import once_differentiable

RUN = 64
"""Rows that pass through a tree together."""
LARGEST_MARGIN = 80.0
"""Margins, times the steepness, are cut to ± this: the sigmoid of less is a subnormal float32."""
LEAST_SHARE = 1e-30
"""Shares below this count as 0, so that their products are no subnormal numbers."""


@kernel
def _shares(right, root, share, run):
    """Fill the share of each row at each leaf.

    Parameters
    ----------
    right : (n_trees, 2 ** depth - 1, batch)
        Share of a node's rows that goes right, breadth first.
    root : (n_trees, batch)
        Share of a row that a tree starts with.
    share : (n_trees, 2 ** depth, batch)
        Filled. Levels are built in it, from the last node of each to the first, whose children lie
        where no node is read any more:

            for level in tree:
                for i in reversed(level): share[2 i], share[2 i + 1] = split(share[i], right[i])
    """
    n_trees, n_nodes, batch = right.shape
    zero, least = right.dtype.type(0), right.dtype.type(LEAST_SHARE)
    for tree in range(n_trees):
        for first in range(0, batch, run):
            last = min(first + run, batch)
            for row in range(first, last):
                share[tree, 0, row] = root[tree, row]
            width = 1
            while width <= n_nodes:
                for i in range(width - 1, -1, -1):
                    turn = right[tree, width - 1 + i, first:last]
                    parent = share[tree, i, first:last]
                    low = share[tree, 2 * i, first:last]
                    high = share[tree, 2 * i + 1, first:last]
                    for row in range(last - first):
                        reached = parent[row]
                        part = reached * turn[row]
                        rest = reached - part
                        high[row] = part if part > least else zero
                        low[row] = rest if rest > least else zero
                width *= 2


@kernel
def _slopes(right, share, slope, gradient, run):
    """Fill the gradient to each margin, from the gradient to each leaf's share.

    With A the sum of share · slope over the leaves below a turn,
    d / dm = A_right · (1 − right) − A_left · right, since d log sigmoid(m) / dm = sigmoid(−m).

    Parameters
    ----------
    right, share
        As of `_shares`.
    slope : (n_trees, 2 ** depth, batch)
        Gradient to the shares.
    gradient : (n_trees, 2 ** depth - 1, batch)
        Filled.
    """
    n_trees, n_nodes, batch = right.shape
    one = right.dtype.type(1)
    flow = np.empty((n_nodes + 1, run), right.dtype)
    above = np.empty((n_nodes + 1, run), right.dtype)
    for tree in range(n_trees):
        for first in range(0, batch, run):
            n = min(first + run, batch) - first
            for leaf in range(n_nodes + 1):
                of_leaf = flow[leaf]
                u = share[tree, leaf, first : first + n]
                g = slope[tree, leaf, first : first + n]
                for row in range(n):
                    of_leaf[row] = u[row] * g[row]
            width = (n_nodes + 1) // 2
            while width:
                for i in range(width):
                    low, high, both = flow[2 * i], flow[2 * i + 1], above[i]
                    turn = right[tree, width - 1 + i, first : first + n]
                    filled = gradient[tree, width - 1 + i, first : first + n]
                    for row in range(n):
                        a, b, s = low[row], high[row], turn[row]
                        filled[row] = b * (one - s) - a * s
                        both[row] = a + b
                flow, above = above, flow
                width //= 2


class _Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, margin: Tensor, root: Tensor) -> Tensor:
        right = margin.clamp(-LARGEST_MARGIN, LARGEST_MARGIN).sigmoid_()
        share = right.new_empty((right.shape[0], right.shape[1] + 1, right.shape[2]))
        _shares(right.numpy(), root.numpy(), share.numpy(), RUN)
        ctx.save_for_backward(right, share)
        return share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        right, share = ctx.saved_tensors
        gradient = torch.empty_like(right)
        _slopes(right.numpy(), share.numpy(), slopes[0].contiguous().numpy(), gradient.numpy(), RUN)
        return gradient, None


def leaf_shares(margin: Tensor, root: Tensor) -> Tensor:
    """Return the share of each row at each leaf: the product of sigmoid(± margin) on its path.

    Parameters
    ----------
    margin : float, (n_trees, 2 ** depth - 1, batch)
        Breadth first, times the steepness; contiguous, on the CPU.
    root : float, (n_trees, batch)
        Share that each tree starts with, without a gradient: 1, or 0 or 1 / (1 − p) of dropout.

    Returns
    -------
    float, (n_trees, 2 ** depth, batch)
        Leaves from left to right. Cost: O(n_nodes · batch), forward and backward.
    """
    result: Tensor = _Shares.apply(margin, root)  # type: ignore[no-untyped-call]
    return result
