"""Stumps train on the device that is asked for, with the same code as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.datasets import load_diabetes, load_digits, load_iris  # noqa: E402

import bitvec  # noqa: E402
from bitvec.errors import InputError  # noqa: E402

KINDS = {
    "polytopes": lambda **how: bitvec.learners.CPTClassifier(max_depth=2, n_facets=3, **how),
    "values of polytopes": lambda **how: bitvec.learners.CPTRegressor(
        max_depth=2, n_facets=3, **how
    ),
    "linear, by EM": lambda **how: bitvec.learners.E2EDTClassifier(
        max_depth=2, stump_loss="em", **how
    ),
    "values": lambda **how: bitvec.learners.E2EDTRegressor(max_depth=2, **how),
    "mlp": lambda **how: bitvec.learners.E2EDTClassifier(max_depth=2, split="mlp", hidden=4, **how),
    "forest": lambda **how: bitvec.learners.E2EDFClassifier(n_estimators=2, max_depth=2, **how),
}


def fitted(kind, **how):
    X, y = load_diabetes(return_X_y=True) if "values" in kind else load_iris(return_X_y=True)
    return KINDS[kind](steps=20, random_state=0, **how).fit(X, y), X, y


@pytest.mark.parametrize("kind", KINDS)
def test_no_tensor_is_made_on_the_default_device(kind):
    alone, X, _ = fitted(kind, refine=0, device="cpu")
    with torch.device("meta"):  # any tensor made there has no values
        model, _, _ = fitted(kind, refine=0, device="cpu")
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))


def test_the_roughness_of_images_is_taken_on_the_device():
    X, y = load_digits(n_class=3, return_X_y=True)
    model = bitvec.learners.E2EDTClassifier(
        max_depth=2, steps=20, refine=0, spatial=0.1, spatial_shape=(8, 8), device="cpu"
    )
    with torch.device("meta"):
        model.fit(X, y)
    assert model.score(X, y) > 0.8


def test_a_device_that_cannot_be_used_is_refused():
    with pytest.raises(InputError, match="`device` must be one that torch can use here, got 'no'"):
        fitted("values", device="no")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_learns_what_the_cpu_learns(kind):
    on_cpu, X, y = fitted(kind, refine=40)
    on_gpu, _, _ = fitted(kind, refine=40, device="cuda")
    assert abs(on_gpu.score(X, y) - on_cpu.score(X, y)) < 0.05
    assert bitvec.certify(
        on_gpu.forest_, getattr(on_gpu, "tree_", None) or on_gpu.native_, X
    ).passed
