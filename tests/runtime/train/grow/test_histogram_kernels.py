"""Splits are the best there are, derivatives are those of the loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitvec.core.output import Output, PostTransform
from bitvec.runtime.train.grow.histogram_kernels import MOST_BINS, Columns, Limits, Tree, grow
from bitvec.runtime.train.grow.loss_derivatives import derivatives
from bitvec.runtime.train.retrain import objective


def tree_of(leaves, n_rows, width):
    integers = [np.zeros(leaves - 1, np.int32) for _ in range(4)]
    return Tree(
        *integers, np.zeros(leaves - 1, bool), np.zeros((leaves - 1, MOST_BINS), bool),
        np.zeros((leaves, width)), np.zeros(n_rows, np.int32),
    )  # fmt: skip


@pytest.mark.parametrize("width", [1, 3])
def test_a_stump_is_the_best_of_all(width):
    rng = np.random.default_rng(0)
    n, bins, ridge = 200, 5, 1.0
    code = rng.integers(0, bins + 1, (n, 3)).astype(np.uint8)  # the last bin is missing
    columns = Columns(
        code, (np.arange(4) * (bins + 1)).astype(np.int64), np.zeros(3, bool), np.zeros(3, np.int8)
    )
    both = np.concatenate([rng.normal(size=(n, width)), rng.uniform(0.5, 1, (n, width))], axis=1)
    tree, order = tree_of(2, n, width), np.arange(n, dtype=np.int32)
    scratch = np.empty((2, 3 * (bins + 1), 2 * width + 1))
    grow(columns, np.arange(3), both, Limits(2, 5.0, ridge), 0.0, order, tree, scratch)

    def gain(right):
        parts = [both[~right].sum(axis=0), both[right].sum(axis=0)]
        return sum((p[:width] ** 2 / (p[width:] + ridge)).sum() for p in parts)

    ways = [
        ((code[:, c] > cut) & (code[:, c] < bins)) | ((code[:, c] == bins) & missing)
        for c in range(3)
        for cut in range(bins - 1)
        for missing in (False, True)
    ]
    assert gain(tree.exit == 1) == pytest.approx(max(map(gain, ways)))
    for leaf in range(2):
        p = both[tree.exit == leaf].sum(axis=0)
        assert tree.value[leaf] == pytest.approx(-p[:width] / (p[width:] + ridge))


@pytest.mark.parametrize(
    ("post_transform", "n", "n_classes"),
    [
        (PostTransform.SIGMOID, 1, 2),
        (PostTransform.SOFTMAX, 3, 3),
        (PostTransform.IDENTITY, 2, 0),
        (PostTransform.EXPONENTIAL, 1, 0),
    ],
)
def test_derivatives_are_those_of_the_loss(post_transform, n, n_classes):
    classes = (np.arange(n_classes),) if n_classes else None
    output = Output(n, np.dtype(np.float64), post_transform=post_transform, classes=classes)
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(20, n))
    target = rng.integers(0, n_classes, (20, 1)) if n_classes else rng.uniform(size=(20, n))
    goal = objective.build(output, target)
    found = derivatives(goal, raw, target)
    first, second = np.empty_like(raw), np.empty_like(raw)
    for row in range(20):
        loss = lambda r, row=row: goal.losses(r[None], torch.tensor(target[[row]])).sum()  # noqa: E731
        at = torch.tensor(raw[row])
        first[row] = torch.func.grad(loss)(at).numpy()
        second[row] = np.diagonal(torch.func.hessian(loss)(at).numpy())
    second = np.maximum(second, 1e-16)
    unit = 1.0 if n_classes else second.mean()
    assert found[:, :n] == pytest.approx(first / unit)
    assert found[:, n:] == pytest.approx(np.maximum(second / unit, 1e-16))
