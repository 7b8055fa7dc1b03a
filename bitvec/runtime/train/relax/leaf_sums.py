"""Sums over leaves of membership times vector."""

from __future__ import annotations

import torch
from torch import Tensor

from bitvec.runtime.train.relax.tracing import is_traced, sums

FEW_OUTPUTS = 32
"""Up to which a traced sum is a product, which runtimes have faster than sums by group."""


def sum_of_leaves(
    u: Tensor, vectors: Tensor, output: Tensor | None, n_outputs: int, infinite: Tensor | None
) -> Tensor:
    """Return the sum over leaves of u · v, (n_outputs, batch), in the dtype of v.

    A leaf of membership 0 adds nothing, not even where its vector is not finite.

    Parameters
    ----------
    u : float, (n_leaves, batch)
        Memberships, times weights of trees if vectors do not hold these.
    vectors : float, (n_leaves, width)
    output : int64, (n_leaves,), optional
        The one output that each leaf adds to.
    infinite : int64, (n,), optional
        Leaves whose vectors are not finite.
    """
    u = u.to(vectors.dtype)
    rest: Tensor | None = None
    if infinite is not None:
        own, v = u.index_select(0, infinite), vectors.index_select(0, infinite)
        rest = _products(own, v)
        vectors = vectors.index_fill(0, infinite, 0.0)
    if output is None:
        total = vectors.T @ u
        return total if rest is None else total + rest.sum(dim=0)
    if is_traced() and n_outputs <= FEW_OUTPUTS:
        own = output == torch.arange(n_outputs, device=u.device)[:, None]
        total = torch.where(own, vectors.T, 0.0) @ u
    else:
        total = sums(vectors * u, output, n_outputs)
    if rest is not None and infinite is not None:
        total = total + sums(rest[:, 0], output.index_select(0, infinite), n_outputs)
    return total


def _products(u: Tensor, vectors: Tensor) -> Tensor:
    """Return u · v, (n, width, batch), 0 where u is 0."""
    share, spread = u[:, None, :], vectors[:, :, None]
    return torch.where(share != 0, share * torch.where(share != 0, spread, 0.0), 0.0)


def sum_of_reached(
    row: Tensor,
    leaf: Tensor,
    u: Tensor,
    vectors: Tensor,
    output: Tensor | None,
    *,
    shape: tuple[int, int],
) -> Tensor:
    """Return the same sum, of shape (n_outputs, batch), from the leaves that are reached.

    Parameters
    ----------
    row, leaf : int64, (n,)
    u : float, (n,)
    """
    u = u.to(vectors.dtype)
    own = vectors.index_select(0, leaf)
    terms = torch.where(u > 0, u, 0.0)[:, None] * torch.where(u[:, None] > 0, own, 0.0)
    n_outputs, batch = shape
    if output is None:
        return terms.new_zeros((batch, n_outputs)).index_add(0, row, terms).T
    place = output.index_select(0, leaf) * batch + row
    return terms.new_zeros(n_outputs * batch).index_add(0, place, terms[:, 0]).view(shape)
