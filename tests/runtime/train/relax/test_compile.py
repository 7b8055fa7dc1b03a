"""torch.compile on a soft forest: one graph from a tensor or prepared rows, of the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core.forest import Forest

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402

X = np.random.default_rng(1).normal(size=(16, 3))


def forest(ragged=False):
    rng = np.random.default_rng(0)
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    tree = Forest.from_matrices(np.eye(3), rng.normal(size=3), B, rng.normal(size=4))
    if ragged:
        B = [[0, 1], [1, 0], [1, 1]]
        tree = Forest.from_matrices(np.eye(3)[:2], rng.normal(size=2), B, rng.normal(size=3))
    return tree.take([0, 0])


def compare(backend, name, missing=False, prepared=False, **options):
    """Compile without a break and compare scores and gradients."""
    torch._dynamo.reset()
    rows = X.copy()
    if missing:
        rows[0, 0] = np.nan
    module = SoftForest.from_forest(forest(missing), name, dtype=torch.float64, **options)
    ready = module.calibrate(rows).prepare(rows)
    given = ready if prepared else torch.tensor(rows)
    compiled = torch.compile(module, backend=backend, fullgraph=True)
    moving = [p for p in module.parameters() if p.requires_grad]
    for _ in range(2):
        scores = [module(ready), compiled(given)]
        grads = [torch.autograd.grad(s.square().sum(), moving, allow_unused=True) for s in scores]
        # The same operations in the order of another compiler.
        assert torch.allclose(*scores, rtol=1e-9)
        for a, b in zip(*grads, strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.allclose(a, b, rtol=1e-7, atol=1e-12)
        module.gamma = 2.0


@pytest.mark.parametrize(
    "name",
    ["sigmoid", *(pytest.param(n, marks=pytest.mark.full) for n in ("smooth_step", "entmax15"))],
)
def test_a_compiled_module_gives_the_same_scores_and_gradients(name):
    compare("aot_eager", name)


@pytest.mark.parametrize(
    "name",
    [
        n
        if n in ("kernel", "entmax15", "straight_through")
        else pytest.param(n, marks=pytest.mark.full)
        for n in RELAXATIONS
    ],
)
def test_every_relaxation_is_one_graph(name):
    compare("eager", name)


@pytest.mark.parametrize("trainable", [("b", "v"), {"S": {"nodes": [0]}, "v": {"leaves": [1]}}])
def test_rows_with_missing_values_and_parts_that_do_not_move_are_one_graph(trainable):
    compare("eager", "sigmoid", missing=True, prepared=True, trainable=trainable)


@pytest.mark.full
@pytest.mark.parametrize("name", RELAXATIONS)
def test_inductor_gives_the_same_scores_and_gradients(name):
    try:
        torch.compile(lambda x: x + 1, backend="inductor")(torch.zeros(3))
    except Exception as error:
        pytest.skip(f"inductor finds no working C++ compiler: {type(error).__name__}")
    compare("inductor", name)
