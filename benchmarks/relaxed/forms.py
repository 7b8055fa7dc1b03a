"""One training step of each form: ours by relaxation, and the dense product of D and log-gates."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec.core import matrices
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.relax import SoftForest

Step = Callable[[], tuple[Tensor, ...]]
"""Goes forward and backward; returns raw scores and the gradients of S, if it turns, b and v."""


def ours(forest: Forest, X: Array, relaxation: str) -> Step:
    """Return a step of a SoftForest with S, b and v free."""
    module = SoftForest.from_forest(forest, relaxation, trainable=("S", "b", "v"))
    rows = module.prepare(X)
    # A box of a kernel has no row that turns.
    moved = (*(() if module.rows is None else (module.rows.S,)), module.b, module.v)

    def step() -> tuple[Tensor, ...]:
        module.zero_grad()
        raw: Tensor = module(rows)
        raw.square().mean().backward()  # type: ignore[no-untyped-call]
        return raw.detach(), *(gradient(one) for one in moved)

    return step


def dense(forest: Forest, X: Array) -> Step:
    """Return a step of path products as two products with the 0/1 matrices of D, tree by tree.

    log u = [D = 1] · log s + [D = −1] · log(1 − s) for all trees in one batched product: the form
    that soft forests are usually given in torch. The matrices are one tree's, shared by all, since
    the trees are of one shape.
    """
    n_trees = forest.n_trees
    n, n_leaves = forest.n_nodes // n_trees, forest.n_leaves // n_trees
    D = torch.tensor(matrices.ternary(forest[0].bitvectors))
    goes_right = (D == 1).float().expand(n_trees, n_leaves, n)
    goes_left = (D == -1).float().expand(n_trees, n_leaves, n)
    S = torch.tensor(forest.rows.toarray(), requires_grad=True)
    b = torch.tensor(forest.tests.b, requires_grad=True)
    v = torch.tensor(forest.leaves.v, requires_grad=True)
    Xt = torch.tensor(X.T.copy())

    def step() -> tuple[Tensor, ...]:
        S.grad = b.grad = v.grad = None
        m = (S @ Xt - b[:, None]).view(n_trees, n, -1)
        right = F.logsigmoid(m)
        log_u = torch.bmm(goes_right, right) + torch.bmm(goes_left, right - m)
        raw = torch.einsum("tlb,tlo->bo", log_u.exp(), v.view(n_trees, n_leaves, 1))
        raw.square().mean().backward()  # type: ignore[no-untyped-call]
        return raw.detach(), *(gradient(one) for one in (S, b, v))

    return step


def gradient(parameter: Tensor) -> Tensor:
    """Return the gradient, which is there."""
    assert parameter.grad is not None
    return parameter.grad.clone()


def projection(name: str, n_leaves: int, batch: int) -> Step:
    """Return a step of a map of one tree's leaves to the simplex: memberships and a gradient."""
    from bitvec.runtime.train.relax import sparsemax as projections

    maps = {
        "softmax": lambda score: torch.softmax(score, dim=1),
        "sparsemax": projections.sparsemax,
        "entmax15": projections.entmax15,
    }
    generator = torch.Generator().manual_seed(0)
    score = torch.randn((1, n_leaves, batch), generator=generator).requires_grad_()
    away = torch.randn((1, n_leaves, batch), generator=generator)
    chosen = maps[name]

    def step() -> tuple[Tensor, ...]:
        score.grad = None
        p = chosen(score)
        p.backward(away)
        return p.detach(), gradient(score)

    return step
