"""Penalties on the loss of stumps: a prior of facets, and the roughness of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.errors import InputError
from bitvec.learners.growth.level import Level
from bitvec.learners.growth.linear import LinearTests
from bitvec.learners.growth.polytope import PolytopeTests
from bitvec.learners.growth.stump_test import StumpTests

Penalty = Callable[[StumpTests, Level], Tensor]
"""Function that returns a penalty for each restart and node, (n_restarts, n_nodes); a node's loss
is a mean over its rows."""
FLOOR = -8.0
"""Floor of ln r: below it a facet is out of play and the prior pulls no further."""


@dataclass(frozen=True, slots=True)
class GammaProcess:
    """Minus the log of the gamma process prior of a polytope, divided by the node's rows.

    Σ_k [(1 − γ0 / K) ln r_k + c0 r_k] + (a + 1/2) Σ_jk ln(1 + β_jk² / 2b).

    Parameters
    ----------
    gamma0, c0, a, b : float
        The paper gives no numbers; 1 is the neutral choice for each.

    Notes
    -----
    The prior of Armandpour, Sadeghian and Zhou, 2021, whose sum is not divided by the rows, so
    that it weighs more in small batches, and has no floor: the first term falls without bound as
    r goes to 0 and would drive out every facet. Here ln r counts from `FLOOR` on.
    """

    gamma0: float = 1.0
    c0: float = 1.0
    a: float = 1.0
    b: float = 1.0

    def __call__(self, tests: StumpTests, level: Level) -> Tensor:
        """Return the penalty of each restart and node."""
        assert isinstance(tests, PolytopeTests)
        log_r, beta = tests.log_r, tests.beta[..., :-1]
        of_r = (1 - self.gamma0 / log_r.shape[-1]) * log_r.clamp_min(FLOOR) + self.c0 * log_r.exp()
        of_beta = (self.a + 0.5) * torch.log1p(beta.square() / (2 * self.b)).sum((-1, -2))
        n_rows = torch.tensor(level.n_rows, dtype=beta.dtype, device=beta.device)
        return (of_r.sum(-1) + of_beta) / n_rows


@dataclass(frozen=True, slots=True)
class Roughness:
    """strength · θᵀ M θ, M the Laplacian of the 4-neighbour grid: tests that are smooth as images.

    θ is that of raw columns, times the root of the mean square of the columns' deviations, so that
    the unit of the pixels does not matter. Pixels that a node does not read weigh 0. The bias is
    not in it.

    Parameters
    ----------
    strength : float
    shape : (n_channels, height, width)

    Notes
    -----
    The spatial regulariser of Hehn, Kooij and Hamprecht, 2020, who give no strength.
    """

    strength: float
    shape: tuple[int, int, int]

    def __call__(self, tests: StumpTests, level: Level) -> Tensor:
        """Return the penalty of each restart and node."""
        assert isinstance(tests, LinearTests)
        spread = level.units.spread
        unit = np.sqrt(np.mean(spread**2, axis=1, keepdims=True)) / spread
        scale = torch.from_numpy(np.where(level.units.varies, unit, 0.0).astype(np.float32))
        theta = tests.theta[..., :-1] * scale.to(tests.theta.device)
        if level.units.columns is not None:
            at = torch.from_numpy(level.units.columns).to(theta.device).expand(theta.shape)
            theta = theta.new_zeros(*theta.shape[:2], level.units.n_features).scatter(-1, at, theta)
        image = theta.reshape(*theta.shape[:2], *self.shape)
        down, across = image.diff(dim=-2), image.diff(dim=-1)
        return self.strength * (down.square().sum((2, 3, 4)) + across.square().sum((2, 3, 4)))


def image_shape(shape: Any, n_features: int, name: str = "spatial_shape") -> tuple[int, int, int]:
    """Return the shape of the images whose pixels the columns are, with channels.

    Raises
    ------
    InputError
        If it is not (height, width) or (n_channels, height, width) of so many columns.
    """
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    whole = all(isinstance(size, (int, np.integer)) and size > 0 for size in sizes)
    if not whole or len(sizes) not in (2, 3) or int(np.prod(sizes)) != n_features:
        raise InputError(
            f"`{name}` must be (height, width) or (n_channels, height, width) of the "
            f"{n_features} columns, got {shape!r}."
        )
    height, width = (int(size) for size in sizes[-2:])
    return n_features // (height * width), height, width
