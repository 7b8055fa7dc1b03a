"""Penalties on parameters: few features, small numbers, smooth rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from bitvec.core import options
from bitvec.errors import InputError
from bitvec.runtime.train.relax.module import SoftForest

Units = Literal["raw", "standardised"]


NEWTON_STEPS = 8
"""They double the digits of a column's length each; it starts from less than it is."""


class Regulariser(Protocol):
    """A term R that is small where the parameters are as they should be."""

    def penalty(self, module: SoftForest) -> Tensor:
        """Return R, a number that can be differentiated."""
        ...


@dataclass(frozen=True, slots=True)
class L1:
    """R = strength · sum |S|, in standardised units: rows that read few columns.

    It acts by its proximal step alone, after each step of the optimiser, which gives exact zeros;
    its penalty is not to be added to the loss. A weight of 0 stays there while the loss falls by
    less than the strength for each unit of it.

    Parameters
    ----------
    strength : float
    by_column : bool
        Whether columns vanish as a whole from all rows: R = strength · sqrt(n_rows) · sum over
        columns of the length of the column.
    """

    strength: float
    by_column: bool = False

    def penalty(self, module: SoftForest) -> Tensor:
        """Return R."""
        S = _rows(module)
        if self.by_column:
            length: Tensor = torch.linalg.vector_norm(S, dim=0)
            return self.strength * len(S) ** 0.5 * length.sum()
        return self.strength * S.abs().sum()

    @torch.no_grad()
    def after_step(
        self,
        module: SoftForest,
        learning_rate: float,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Set S to the S' that minimises ½ sum of (S' − S)² / step, plus R(S').

        Parameters
        ----------
        optimizer : torch.optim.Optimizer, optional
            What has taken the step. Each weight's step is then the learning rate times what the
            optimiser makes of a gradient of 1 there (see `step_lengths`), so that what training
            tends to is the least of loss + R. Without it, and for plain gradient descent, the step
            is the learning rate.
        """
        S = _rows(module)
        length: Tensor | float = 1.0 if optimizer is None else step_lengths(optimizer, S)
        shrink = torch.as_tensor(learning_rate * self.strength * length).to(S)
        if self.by_column:
            S.copy_(_shorter_columns(S, shrink * len(S) ** 0.5))
        else:
            S.copy_(S.sign() * (S.abs() - shrink).clamp_min(0))


def _shorter_columns(S: Tensor, shrink: Tensor) -> Tensor:
    """Return S' that minimises ½ sum of (S' − S)² / shrink, plus the lengths of its columns.

    S' = S · n / (n + shrink), where n is the length of the column of S', by Newton's method on
    1 / ||S / (n + shrink)|| = 1, which is nearly linear in n.
    """
    shrink = shrink.expand(S.shape).clamp_min(1e-30)
    n = S.new_zeros(S.shape[1])
    for _ in range(NEWTON_STEPS):
        part = S / (n + shrink)
        size = torch.linalg.vector_norm(part, dim=0).clamp_min(1e-30)
        slope = (part.square() / (n + shrink)).sum(dim=0).clamp_min(1e-30) / size**3
        # Where a column's gradient is too small, n is 0.
        n = (n + (1 - 1 / size) / slope.clamp_min(1e-30)).clamp_min(0)
    return S * (n / (n + shrink))


def step_lengths(optimizer: torch.optim.Optimizer, parameter: Tensor) -> Tensor | float:
    """Return how far a steady gradient of 1 moves each number, in learning rates.

    Of an optimiser that keeps no mean square of gradients, with momentum or without, one number.
    """
    for group in optimizer.param_groups:
        if any(parameter is one for one in group["params"]):
            break
    else:
        return 1.0
    state = optimizer.state.get(parameter, {})
    if "exp_avg_sq" in state:  # Adam and its kin
        corrected = 1 - group["betas"][1] ** float(state["step"])
        root: Tensor = (state["exp_avg_sq"] / corrected).sqrt()
        return 1 / (root + group["eps"])
    if "square_avg" in state:  # RMSprop
        root = state["square_avg"].sqrt()
        return 1 / (root + group["eps"])
    return 1 / (1 - float(group.get("momentum", 0.0)))


@dataclass(frozen=True, slots=True)
class L2:
    """R = strength · sum of squares, of the parameters as the module holds them.

    Parameters
    ----------
    strength : float
    of : tuple of str
        Names among "S", "r", "b", "v" and "base_score".
    """

    strength: float
    of: tuple[str, ...] = ("S",)

    def penalty(self, module: SoftForest) -> Tensor:
        """Return R."""
        total = module.v.new_zeros(())
        for name in self.of:
            total = total + _parameter(module, name).square().sum()
        return self.strength * total


@dataclass(frozen=True, slots=True, eq=False)
class Spatial:
    """R = strength · sum over rows β of S of βᵀ M β: rows that are smooth as images.

    M is the Laplacian of the 4-neighbour grid, of which only the differences of neighbours are
    computed, or a matrix of the caller's. Thresholds are not in it.

    Parameters
    ----------
    strength : float
    shape : (n_channels, height, width), optional
        Columns are pixels, channel by channel and row by row.
    matrix : (n_columns, n_columns), optional
        M, dense or sparse, in place of the grid.
    units : "raw" or "standardised"
        Of β: the weights of the columns as they are, times the root of the mean square of the
        columns' deviations, so that the unit of the pixels does not matter; or the weights of
        standardised columns. Both are of margins in units of their deviation.

    Notes
    -----
    The spatial regulariser of Hehn, Kooij and Hamprecht, 2019, who give no strength.
    """

    strength: float
    shape: tuple[int, int, int] | None = None
    matrix: Tensor | None = None
    units: Units = "raw"

    def penalty(self, module: SoftForest) -> Tensor:
        """Return R."""
        beta = _rows(module)
        if self.units == "raw":
            spread = module.scaling.spread
            unit = np.sqrt(np.mean(spread**2)) / spread
            beta = beta * torch.tensor(unit, dtype=beta.dtype, device=beta.device)
        if self.matrix is not None:
            product = (self.matrix.to(beta) @ beta.T).T
            return self.strength * (beta * product).sum()
        assert self.shape is not None
        image = beta.reshape(len(beta), *self.shape)
        down, across = image.diff(dim=-2), image.diff(dim=-1)
        return self.strength * (down.square().sum() + across.square().sum())


@dataclass(frozen=True, slots=True)
class Regularisers:
    """Several regularisers as one; false where there is none.

    Parameters
    ----------
    added : tuple of Regulariser
        Those whose penalty is added to the loss.
    proximal : tuple of L1
        Those that act after each step instead.
    """

    added: tuple[Regulariser, ...] = ()
    proximal: tuple[L1, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.proximal)

    def penalty(self, module: SoftForest) -> Tensor:
        """Return what is added to the mean loss of a batch."""
        total = module.v.new_zeros(())
        for part in self.added:
            total = total + part.penalty(module)
        return total

    def after_step(
        self,
        module: SoftForest,
        learning_rate: float,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Take the proximal steps that follow a step of the optimiser; see `L1.after_step`."""
        for part in self.proximal:
            part.after_step(module, learning_rate, optimizer)


def build(
    module: SoftForest,
    *,
    l1: float = 0.0,
    l1_by_column: bool = False,
    l2: float = 0.0,
    l2_of: str | Iterable[str] = ("S",),
    spatial: float = 0.0,
    spatial_shape: Sequence[int] | None = None,
    spatial_matrix: Any = None,
    spatial_units: Units = "raw",
) -> Regularisers:
    """Return the regularisers of these strengths, none of strength 0.

    Parameters
    ----------
    module : SoftForest
        What is to be trained.
    spatial_shape : (height, width) or (n_channels, height, width), optional
    spatial_matrix : array or scipy sparse matrix, (n_columns, n_columns), optional
        Positive semidefinite. Exactly one of the two must be given with `spatial`.

    Raises
    ------
    InputError
        If a strength is negative, a shape does not fit, or what is regularised does not move.
    """
    strengths = {"l1": l1, "l2": l2, "spatial": spatial}
    strengths = {
        name: options.positive(name, value, or_zero=True) for name, value in strengths.items()
    }
    of_S = ("l1", "spatial", "l2") if l2_of == ("S",) else ("l1", "spatial")
    for name in of_S:
        if strengths[name] and "S" not in module.trainable:
            raise InputError(f"`{name}` must be 0 while S may not move, got {strengths[name]}.")
    added: list[Regulariser] = []
    if strengths["l2"]:
        added.append(L2(strengths["l2"], _trainable(module, l2_of)))
    if strengths["spatial"] and module.rows is not None:
        added.append(
            _spatial(module, strengths["spatial"], spatial_shape, spatial_matrix, spatial_units)
        )
    proximal = (L1(strengths["l1"], bool(l1_by_column)),) if strengths["l1"] else ()
    return Regularisers(tuple(added), proximal)


def _trainable(module: SoftForest, of: str | Iterable[str]) -> tuple[str, ...]:
    names = (of,) if isinstance(of, str) else tuple(of)
    for name in names:
        if name not in module.trainable:
            raise InputError(
                f"`l2_of` must name what may move, {', '.join(module.trainable)}, got {name!r}: "
                "leave it out."
            )
    return names


def _spatial(
    module: SoftForest,
    strength: float,
    shape: Sequence[int] | None,
    matrix: Any,
    units: Units,
) -> Spatial:
    n = _rows(module).shape[1]
    if units not in ("raw", "standardised"):
        raise InputError(f'`spatial_units` must be "raw" or "standardised", got {units!r}.')
    if (shape is None) == (matrix is None):
        raise InputError(
            "`spatial` must come with one of `spatial_shape` and `spatial_matrix`, got "
            f"{'neither' if shape is None else 'both'}: pass the shape of the images."
        )
    if matrix is not None:
        return Spatial(strength, matrix=_matrix(matrix, n, module), units=units)
    sizes: tuple[Any, ...] = tuple(shape or ())
    whole = all(isinstance(size, (int, np.integer)) and size > 0 for size in sizes)
    if not whole or len(sizes) not in (2, 3) or int(np.prod(sizes)) != n:
        raise InputError(
            f"`spatial_shape` must be (height, width) or (n_channels, height, width) of the {n} "
            f"columns, got {shape!r}."
        )
    height, width = (int(size) for size in sizes[-2:])
    return Spatial(strength, (n // (height * width), height, width), units=units)


def _matrix(matrix: Any, n: int, module: SoftForest) -> Tensor:
    if hasattr(matrix, "tocoo"):
        entries = matrix.tocoo()
        values, got = np.asarray(entries.data), entries.shape
        at = torch.tensor(np.stack([entries.row, entries.col]).astype(np.int64))
    else:
        values = np.asarray(matrix)
        got, at = values.shape, None
    if got != (n, n) or values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
        raise InputError(
            f"`spatial_matrix` must hold {n} x {n} finite numbers, got dtype {values.dtype} and "
            f"shape {got}."
        )
    dense = torch.tensor(values, dtype=module.dtype)
    if at is not None:
        dense = torch.sparse_coo_tensor(at, dense, (n, n), check_invariants=True).coalesce()
    return dense.to(module.device)


def _rows(module: SoftForest) -> Tensor:
    if module.rows is None:  # no node has a row that may turn dense
        return module.v.new_zeros((0, 0))
    return module.rows.S


def _parameter(module: SoftForest, name: str) -> Tensor:
    if name in ("S", "r"):
        rows = module.rows
        if rows is None:
            return module.v.new_zeros(0)
        return rows.S if name == "S" else rows.r
    value: Tensor = getattr(module, name)
    return value
