"""Dtypes and devices: bfloat16 within its digits, float64 as the reference, the GPU as the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core.forest import Forest

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, harden  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402

SUMMED = [name for name in RELAXATIONS if name != "straight_through"]


def forest(seed=0):
    """Return 3 trees of depth 3."""
    rng = np.random.default_rng(seed)
    leaf = np.arange(8)[:, None]
    node = np.array([(0, 4, 8), (0, 2, 4), (4, 6, 8), (0, 1, 2), (2, 3, 4), (4, 5, 6), (6, 7, 8)])
    B = ~((leaf >= node[:, 0]) & (leaf < node[:, 1]))
    tree = Forest.from_matrices(
        np.eye(4)[rng.integers(0, 4, 7)], rng.normal(size=7), B, rng.normal(size=8)
    )
    return tree.take([0, 0, 0])


X = np.random.default_rng(1).normal(size=(64, 4))


def results(name, *, dtype, device=None, **options):
    """Return u, scores and the gradients of their squares, on the CPU in float64."""
    module = SoftForest.from_forest(forest(), name, dtype=dtype, device=device, **options)
    module.calibrate(X)
    scores = module(X)
    scores.square().mean().backward()
    found = [module.memberships(X), scores]
    found += [p.grad for p in (module.b, module.v) if p.grad is not None]
    if module.rows is not None:
        found.append(module.rows.S.grad)
    return [value.detach().cpu().double() for value in found]


@pytest.mark.parametrize("name", RELAXATIONS)
@pytest.mark.parametrize("trainable", [("S", "b", "v"), ("b", "v")])
def test_bfloat16_is_float32_within_its_digits(name, trainable):
    expected = results(name, dtype=torch.float32, trainable=trainable)
    got = results(name, dtype=torch.bfloat16, trainable=trainable)
    # 8 bits: a share is off by 2^-9 of itself, its margin by as much of a few units; a score of
    # leaves is multiplied by up to 2 L = 16 before it is projected. Gradients are sums of those.
    scale = 0.02 if name in ("sigmoid", "noisy_or", "kernel", "smooth_step") else 0.25
    for a, b in zip(got, expected, strict=True):
        assert torch.all((a - b).abs() <= scale * b.abs().max() + 1e-6)
        assert torch.all(a.isfinite())


def test_bfloat16_keeps_parameters_and_scores_in_float32():
    module = SoftForest.from_forest(forest(), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
    assert module(X).dtype == torch.float32
    assert harden(module).v.tobytes() == forest().v.tobytes()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("moves", [False, True])
def test_rows_of_fewer_digits_are_read_as_they_are(dtype, moves):
    module, x = SoftForest.from_forest(forest()), torch.tensor(X).to(dtype)
    expected = module(x.double()).detach()
    scores = module(x.requires_grad_(moves))
    torch.testing.assert_close(scores.detach(), expected)
    scores.sum().backward()
    assert x.grad is None or x.grad.dtype == dtype


@pytest.mark.parametrize("name", RELAXATIONS)
def test_float32_is_float64_within_its_digits(name):
    expected = results(name, dtype=torch.float64)
    for a, b in zip(results(name, dtype=torch.float32), expected, strict=True):
        # 24 bits, of a few dozen operations; projections divide by gaps of scores.
        assert torch.all((a - b).abs() <= 1e-4 * b.abs().max() + 1e-7)


@pytest.mark.gpu
@pytest.mark.parametrize("name", RELAXATIONS)
@pytest.mark.parametrize("trainable", [("S", "b", "v"), ("b", "v")])
def test_a_gpu_gives_what_the_cpu_gives(name, trainable):
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    expected = results(name, dtype=torch.float64, trainable=trainable)
    for options in ({}, {"tree_chunk": 1}):
        got = results(name, dtype=torch.float64, device="cuda", trainable=trainable, **options)
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)  # another order of sums


@pytest.mark.gpu
def test_a_gpu_routes_sparsely_as_the_cpu_does():
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    options = {"dtype": torch.float64, "routing": "sparse", "gamma": 5.0}
    expected = results("smooth_step", **options)
    for a, b in zip(results("smooth_step", device="cuda", **options), expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)
