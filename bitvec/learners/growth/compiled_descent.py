"""Descent of a level's stumps in compiled loops, where it is all of small arrays on the CPU."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.learners.growth.descent_kernels import (
    Descent,
    LevelRows,
    descend_linear,
    descend_polytopes,
)
from bitvec.learners.growth.level import Blocks, Level
from bitvec.learners.growth.linear import LinearTests
from bitvec.learners.growth.polytope import PolytopeTests
from bitvec.learners.growth.stump_losses import Impurity, Likelihood, StumpLoss
from bitvec.learners.growth.stump_test import StumpTests
from bitvec.learners.growth.targets import SoftLabels, SoftValues

LARGEST_STEP = 1 << 24
"""Products of a step from which on torch's own are faster."""


def may_be_compiled(tests: StumpTests, level: Level, blocks: Blocks, loss: StumpLoss) -> bool:
    """Return whether `descend` trains these tests: linear ones or polytopes, not by EM."""
    if not isinstance(tests, (LinearTests, PolytopeTests)):
        return False
    weights = tests.parameters[0].numel() // level.n_nodes
    return (
        level.Z.device.type == "cpu"
        and isinstance(loss, (Impurity, Likelihood))
        and isinstance(level.soft, (SoftLabels, SoftValues))
        and int(blocks.taken.sum()) * weights <= LARGEST_STEP
    )


def descend(
    tests: StumpTests,
    level: Level,
    blocks: Blocks,
    gammas: Array,
    *,
    by_likelihood: bool,
    rate: float,
    decay: float,
) -> None:
    """Train the parameters of tests by AdamW, in place.

    Parameters
    ----------
    blocks : Blocks
        Whose rows the steps take, in its order.
    gammas : (n_steps,)
        Steepness of each step.
    """
    soft = level.soft
    code, value, n_classes = np.zeros(0, np.int64), np.zeros((0, len(level.Z)), np.float32), 0
    if isinstance(soft, SoftLabels):
        code, n_classes = soft.code.numpy(), soft.statistics.shape[1]
    else:
        assert isinstance(soft, SoftValues)
        value = np.ascontiguousarray(soft.Y.numpy().T)
    rows = LevelRows(
        level.start,
        blocks.order,
        blocks.taken,
        np.ascontiguousarray(level.Z.numpy().T),
        level.weight.astype(np.float32),
        code,
        value,
        n_classes,
    )
    how = Descent(gammas.astype(np.float32), by_likelihood, rate, decay)
    if isinstance(tests, LinearTests):
        theta = _array(tests.theta)
        descend_linear(rows, how, theta, np.zeros_like(theta), np.zeros_like(theta))
        return
    assert isinstance(tests, PolytopeTests)
    beta, log_r, tau = map(_array, tests.parameters)
    numbers = (beta, log_r, tau[..., None])
    moments = [tuple(np.zeros_like(part) for part in numbers) for _ in range(2)]
    descend_polytopes(rows, how, numbers, *moments)


def _array(part: Tensor) -> Array:
    array: Array = part.detach().numpy()
    return array
