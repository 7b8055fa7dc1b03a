"""New leaf vectors for a forest whose tests stay: convex, and most of what retraining gains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.output import Aggregate, PostTransform
from bitvec.runtime.torch.objective import Objective

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Ridge penalties tried, in rows: a leaf reached by as many rows moves half of its way."""
ITERATIONS = 200
TOLERANCE = 1e-5
PULL = 0.1
"""Weight of the mean squared distance from the old leaves, in their own standard deviation."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafDesign:
    """The linear map from leaf vectors to raw scores, for rows with known exit leaves.

    Parameters
    ----------
    leaf : int64, (batch, n_trees)
        Exit leaves, as forest leaves.
    weight : float64, (n_trees,)
        What each tree's vectors are multiplied by.
    divisor : float64, (n_outputs,)
        What their sum is divided by.
    output : int64, (n_leaves,), optional
        The output that each leaf adds to.
    """

    leaf: Tensor
    weight: Tensor
    divisor: Tensor
    output: Tensor | None
    n_outputs: int
    n_leaves: int

    def raw(self, v: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return the sums of leaf vectors, (batch, n_outputs), without the base score."""
        leaf = self.leaf[rows]
        terms = v[leaf] * self.weight.to(v.dtype)[:, None]
        if self.output is None:
            return terms.sum(dim=1) / self.divisor.to(v.dtype)
        raw = v.new_zeros((len(leaf), self.n_outputs))
        raw = raw.scatter_add(1, self.output[leaf], terms[:, :, 0])
        return raw / self.divisor.to(v.dtype)

    def transposed(self, raw: Tensor) -> Tensor:
        """Return the adjoint of `raw`: (batch, n_outputs) to (n_leaves, width)."""
        width = self.n_outputs if self.output is None else 1
        v = raw.new_zeros((self.n_leaves, width))
        raw = raw / self.divisor
        for tree in range(self.leaf.shape[1]):
            leaf = self.leaf[:, tree]
            part = raw if self.output is None else raw.gather(1, self.output[leaf][:, None])
            v.index_add_(0, leaf, self.weight[tree] * part)
        return v


def divisor(forest: Forest) -> Array:
    """Return what the sum over trees is divided by, float64 (n_outputs,)."""
    output = forest.output
    if output.scale is not None:
        return 1 / output.scale.astype(np.float64)
    if output.aggregate is not Aggregate.MEAN:
        return np.ones(output.n_outputs)
    if output.divisor is None:
        return np.full(output.n_outputs, float(max(forest.n_trees, 1)))
    return output.divisor.astype(np.float64)


def design(forest: Forest, exits: Array, device: torch.device) -> LeafDesign:
    """Return the design of rows with these exit leaves, numbered within their trees."""
    weight = np.ones(forest.n_trees)
    if forest.output.tree_weight is not None:
        weight = forest.output.tree_weight.astype(np.float64)
    leaf = exits.astype(np.int64) + forest.bitvectors.leaf_ptr[:-1]
    output = forest.leaves.output
    return LeafDesign(
        torch.tensor(leaf, device=device),
        torch.tensor(weight, device=device),
        torch.tensor(divisor(forest), device=device),
        None if output is None else torch.tensor(output.astype(np.int64), device=device),
        forest.n_outputs,
        forest.n_leaves,
    )


def is_quadratic(objective: Objective) -> bool:
    """Return whether the loss is a squared error of the raw score itself."""
    output = objective.output
    return not output.is_classifier and output.post_transform is PostTransform.IDENTITY


def ridge(
    forest: Forest, table: LeafDesign, target: Array, sample_weight: Array
) -> Iterator[tuple[float, Array]]:
    """Yield (penalty, v) that minimise the weighted squared error + penalty · ||v − old v||².

    Conjugate gradients on the normal equations, in float64; one tree's weight is counted as 1.
    """
    device = table.leaf.device
    old = torch.tensor(forest.leaves.v.astype(np.float64), device=device)
    base = torch.tensor(forest.output.base_score, device=device, dtype=torch.float64)
    wanted = torch.tensor(target, device=device)
    w = torch.tensor(sample_weight, device=device)[:, None]
    residual = wanted - table.raw(old) - base
    right = table.transposed(w * residual)
    unit = float((table.weight**2).mean() / (table.divisor**2).mean())
    for penalty in PENALTIES:

        def normal(v: Tensor, shrink: float = penalty * unit) -> Tensor:
            return table.transposed(w * table.raw(v)) + shrink * v

        yield penalty, (old + _conjugate_gradients(normal, right)).cpu().numpy()


def _conjugate_gradients(normal: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
    x = torch.zeros_like(right)
    r, p = right.clone(), right.clone()
    square = (r * r).sum()
    stop = TOLERANCE**2 * square
    for _ in range(ITERATIONS):
        if not square > stop:  # reached, or not finite
            break
        q = normal(p)
        step = square / (p * q).sum()
        x += step * p
        r -= step * q
        last, square = square, (r * r).sum()
        p = r + (square / last) * p
    return x


def has_probability_leaves(forest: Forest) -> bool:
    """Return whether every leaf holds class probabilities of one group, which sum to 1."""
    output, v = forest.output, forest.leaves.v
    return (
        output.is_classifier
        and output.post_transform in (PostTransform.IDENTITY, PostTransform.AT_MOST_ONE)
        and forest.leaves.output is None
        and forest.leaves.linear is None
        and len(output.groups) == 1
        and output.n_outputs > 1
        and bool(np.all(v >= 0))
        and bool(np.all(np.abs(v.sum(axis=1, dtype=np.float64) - 1) < 1e-5))
    )


def counted_probabilities(
    leaf: Array, label: Array, sample_weight: Array, shape: tuple[int, int], smoothing: float = 0.1
) -> tuple[Array, Array]:
    """Return (count + smoothing) / sum per leaf and class, and which leaves any row reached."""
    counts = np.zeros(shape)
    np.add.at(counts, (leaf, label), sample_weight)
    total = counts.sum(axis=1, keepdims=True)
    return (counts + smoothing) / (total + smoothing * shape[1]), total[:, 0] > 0


def counted_means(
    leaf: Array, target: Array, sample_weight: Array, n_leaves: int
) -> tuple[Array, Array]:
    """Return the weighted mean of the targets per leaf, and which leaves any row reached."""
    total = np.bincount(leaf, sample_weight, minlength=n_leaves)
    sums = np.zeros((n_leaves, target.shape[1]))
    np.add.at(sums, leaf, sample_weight[:, None] * target)
    reached = total > 0
    return sums / np.where(reached, total, 1.0)[:, None], reached
