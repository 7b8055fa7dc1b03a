"""Compiled descent against the same steps in torch, with autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitvec.learners.growth import compiled_descent
from bitvec.learners.growth import level as level_module
from bitvec.learners.growth.grow import generator_of
from bitvec.learners.growth.level import Blocks, level_of
from bitvec.learners.growth.linear import Linear
from bitvec.learners.growth.penalties import GammaProcess
from bitvec.learners.growth.polytope import Polytope
from bitvec.learners.growth.stump_losses import LOSSES
from bitvec.learners.growth.stumps import StumpTraining, descend
from bitvec.learners.growth.targets import Labels, Target, Values
from bitvec.runtime.train.retrain.schedules import steepness

KINDS = {"linear": Linear(), "polytope": Polytope(3)}


def trained(kind: str, loss: str, told: str, **options: Any) -> list[Any]:
    """The parameters of two nodes' tests after 15 steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 6))
    code = (X[:, 0] + X[:, 1] > 0).astype(np.int64) + (X[:, 2] > 1)
    target: Target = Labels(code, 3) if told == "labels" else Values(X @ rng.random((6, 2)) + 40)
    level = level_of(X, target, rng.uniform(0.5, 2, 90), [np.arange(30), np.arange(30, 90)])
    generators = [generator_of(0, j, 0) for j in range(2)]
    tests = KINDS[kind].draw(generators, level, 2)
    how = StumpTraining(
        KINDS[kind], LOSSES[loss], 15, 2, 10**6, 0.05, steepness((1.0, 8.0), "linear"),
        weight_decay=0.1,
    )  # fmt: skip
    how = replace(how, **options)
    descend(tests, Blocks(level), generators, how)
    return [part.detach().numpy().copy() for part in tests.parameters]


@pytest.mark.parametrize("batch_size", [10**6, 40])
@pytest.mark.parametrize("told", ["labels", "values"])
@pytest.mark.parametrize("loss", ["information", "likelihood"])
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_those_of_torch(
    kind: str, loss: str, told: str, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level_module, "MIN_ROWS_OF_A_STEP", 20)
    found = trained(kind, loss, told, batch_size=batch_size)
    monkeypatch.setattr(compiled_descent, "may_be_compiled", lambda *_: False)
    literal = trained(kind, loss, told, batch_size=batch_size)
    for one, other in zip(found, literal, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize(
    ("loss", "options"), [("em", {}), ("information", {"penalties": (GammaProcess(),)})]
)
def test_em_and_penalties_are_torchs(
    loss: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_descent, "descend", None)
    assert trained("polytope", loss, "labels", **options)
