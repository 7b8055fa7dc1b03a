"""One tree on the CPU, trained by compiled steps: a small tree's step in torch is its overhead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.relaxations import PRODUCT
from bitvec.runtime.train.retrain.batches import ArrayBatches, Batches
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.optimizers import SameColumns
from bitvec.runtime.train.retrain.recipe import Recipe
from bitvec.runtime.train.retrain.tree_steps import Course, Numbers, Tables, train_tree

NAMES = ("rows.S", "rows.offset", "rows.r", "b", "v")
"""Names of parameters, in the order of `Numbers`."""
LARGEST_VALUE = 1e15
"""Larger values, and deviations smaller than one over this, are left to torch."""
LARGEST_STEP = 1 << 24
"""Products of a step from which on torch's own are faster."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledTree:
    """Training state of a module of one tree, in arrays that share its memory.

    Parameters
    ----------
    tables : Tables
    parameters : list of Tensor
        In the order of `NAMES`.
    optimizer : torch.optim.Optimizer
        Holds moments, as torch's AdamW does.
    rates : (5,)
        Learning rates at the top of the schedule; 0 of what does not move.
    decays : float64, (5,)
    batches : ArrayBatches
    recipe : Recipe
    """

    tables: Tables
    parameters: list[Tensor]
    optimizer: torch.optim.Optimizer
    rates: Array
    decays: Array
    batches: ArrayBatches
    recipe: Recipe

    def advance(self, first: int, last: int) -> tuple[list[float], int]:
        """Take the steps from `first` up to `last`.

        Returns
        -------
        losses : list of float
            Of the steps whose loss is finite.
        done : int
            Steps that were taken; fewer than asked for where the next one's loss is not finite.
        """
        recipe, n = self.recipe, last - first
        part = [step / recipe.steps for step in range(first, last)]
        options = self.optimizer.param_groups[0]
        course = Course(
            np.stack([self.batches.places(step).numpy() for step in range(first, last)]),
            np.array([recipe.gamma(each) for each in part], np.float32),
            np.array([recipe.rate(each) for each in part])[:, None] * self.rates,
            self.decays,
            np.array([first, *options["betas"], options["eps"]], np.float64),
        )
        numbers = Numbers(*map(_array, self.parameters))
        moments = [
            Numbers(*(_array(self._state(one)[name]) for one in self.parameters))
            for name in ("exp_avg", "exp_avg_sq")
        ]
        gradients = Numbers(*map(np.zeros_like, numbers))
        losses = np.empty(n)
        done = int(train_tree(self.tables, numbers, gradients, *moments, course, losses))
        for parameter in self.parameters:
            self._state(parameter)["step"].fill_(float(first + done))
        return losses[:done].tolist(), done

    def _state(self, parameter: Tensor) -> dict[str, Any]:
        """Return the moments of a parameter, those of the start where none are kept yet."""
        if not parameter.requires_grad:
            return dict.fromkeys(("step", "exp_avg", "exp_avg_sq"), parameter.detach().clone())
        state: dict[str, Any] = self.optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (
                torch.zeros_like(parameter, requires_grad=False) for _ in range(2)
            )
        return state


def _array(part: Tensor) -> Array:
    array: Array = part.detach().numpy()
    return array


def compiled_tree(
    module: SoftForest,
    objective: Objective,
    batches: Batches,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    rates: list[float],
) -> CompiledTree | None:
    """Return the state of a module's training; None where it is not one that is compiled.

    It is one of a single tree whose rows of S all move and are dense, all of them margins or all
    facets, by the likelihood of labels or the squared error of values, with AdamW.
    """
    if not isinstance(batches, ArrayBatches) or not _is_compiled(module, objective, recipe):
        return None
    dense = module.rows
    assert dense is not None
    rows, target, weight = batches.all_rows()
    columns = rows.standard
    if len(columns) != 1 or columns[0].missing is not None:
        return None
    if dense.S.numel() * recipe.batch_size > LARGEST_STEP:
        return None
    named = dict(module.named_parameters())
    parameters: list[Tensor] = [named[name] for name in NAMES]
    top, decay = np.zeros(len(NAMES)), np.zeros(len(NAMES))
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        for at, parameter in enumerate(parameters):
            if any(parameter is one for one in group["params"]):
                top[at], decay[at] = rate, group["weight_decay"]
    by_label = module.leaves == "logits"
    value = target.numpy()[:, :0] if by_label else target.numpy()
    if not by_label and not _is_moderate(objective.deviation, value):
        return None
    (block,) = module.blocks(whole=True)
    assert block.tests.at_equal is not None
    at_equal = np.empty(module.forest.n_nodes, np.float32)
    at_equal[block.layout.order.numpy()] = block.tests.at_equal[:, 0].numpy()
    left, right = structure.children(module.forest.bitvectors)
    reads = np.ones(dense.S.shape, bool)
    if isinstance(recipe.optimizer, SameColumns):
        reads = dense.S.detach().numpy() != 0
    tables = Tables(
        left,
        right,
        np.searchsorted(dense.row_node, np.arange(module.forest.n_nodes + 1)),
        at_equal,
        reads,
        dense.get_buffer("r_stays_positive").numpy(),
        bool(dense.softplus.all()),
        dense.r.requires_grad,
        np.ascontiguousarray(columns[0].value.numpy()),
        target.numpy()[:, 0].astype(np.int64) if by_label else np.zeros(0, np.int64),
        np.ascontiguousarray(value.T, np.float32),
        np.float32(objective.deviation),
        weight.numpy(),
    )
    return CompiledTree(tables, parameters, optimizer, top, decay, batches, recipe)


def _is_moderate(deviation: float, value: Array) -> bool:
    """Return whether squares of errors, in deviations, are far from overflow in float32."""
    is_unit = 1 / LARGEST_VALUE < deviation < LARGEST_VALUE
    return is_unit and float(np.abs(value).max(initial=0)) < LARGEST_VALUE


def _is_compiled(module: SoftForest, objective: Objective, recipe: Recipe) -> bool:
    forest, dense, moves = module.forest, module.rows, module.may_move
    by_name = isinstance(recipe.optimizer, str)
    if dense is None or dense.n_nodes != forest.n_nodes or forest.n_trees != 1:
        return False
    by_label = objective.is_likelihood and module.leaves == "logits"
    by_value = objective.is_quadratic and not np.any(forest.output.base_score)
    is_one_kind = dense.plain_row.all() or (dense.softplus.all() and not dense.plain_row.any())
    whole = moves.b.all() and moves.v.all() and dense.row_moves.all()
    return bool(
        (by_label or (by_value and forest.output.post_transform is PostTransform.IDENTITY))
        and (recipe.optimizer == "adamw" if by_name else isinstance(recipe.optimizer, SameColumns))
        and module.device.type == "cpu"
        and module.dtype == torch.float32
        and module.relaxation.gate in ("sigmoid", "noisy_or")
        and module.relaxation.leaf_map == PRODUCT
        and forest.kernel is None
        and module.leaf_functions is None
        and module.leaf_output is None
        and module.infinite_leaves is None
        and module.phi is None
        and "base_score" not in module.trainable
        and bool((module.leaf_weight == 1).all())
        and bool((module.divisor == 1).all())
        and is_one_kind
        and whole
        and len(dense.rules) == 1
    )
