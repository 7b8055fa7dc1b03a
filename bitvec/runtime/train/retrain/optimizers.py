"""The optimiser of a soft forest: which parameters move how fast, and which decay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bitvec.errors import InputError
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.recipe import Recipe

LARGEST_RATE = 1e37
"""Beyond it a step of Adam is no float32; training has long diverged there."""


def adamw(groups: Any, lr: float = 1e-3, **options: Any) -> torch.optim.AdamW:
    """Return AdamW whose step is one kernel: a fifth less time for small forests."""
    return torch.optim.AdamW(groups, lr=lr, fused=True, **options)


@dataclass(frozen=True, slots=True)
class SameColumns:
    """AdamW that leaves a 0 of S alone, so that a node reads no column that it did not read.

    Without gradient neither a step nor the decay moves a 0. S is the parameter of two axes among
    those that decay.
    """

    def __call__(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimiser of parameter groups."""
        for group in groups:
            for parameter in group["params"]:
                if group["weight_decay"] > 0 and parameter.ndim == 2:
                    reads = parameter.detach() != 0
                    parameter.register_hook(lambda gradient, reads=reads: gradient * reads)
        return adamw(groups)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": adamw,
    "adam": lambda groups, lr: torch.optim.Adam(groups, lr=lr, fused=True),
    "nadam": torch.optim.NAdam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True),
}
"""The optimisers by name. All but `adamw` add the weight decay to the gradient."""


def find(optimizer: Any) -> str | Callable[[list[dict[str, Any]]], torch.optim.Optimizer]:
    """Return an optimiser's name, or a function that makes one from parameter groups.

    Raises
    ------
    InputError
        If it is neither.
    """
    if callable(optimizer) or (isinstance(optimizer, str) and optimizer in OPTIMIZERS):
        return optimizer
    raise InputError(
        f"`optimizer` must be one of {', '.join(OPTIMIZERS)} or a function of parameter groups, "
        f"got {optimizer!r}."
    )


def build(
    module: SoftForest, objective: Objective, recipe: Recipe
) -> tuple[torch.optim.Optimizer, list[float]]:
    """Return the optimiser and the learning rate of each of its groups at the top of the schedule.

    S, offsets and b decay; r, leaves, base score and a feature map do not. Rates are in units of
    the margin scale, of logits, and of the leaves' own standard deviation.
    """
    rate = recipe.learning_rate
    of_leaves = rate * _leaf_unit(module, objective)
    decaying = {"b": module.b}
    still: dict[str, torch.nn.Parameter] = {}
    if module.rows is not None:
        decaying |= {"S": module.rows.S, "offset": module.rows.offset}
        still["r"] = module.rows.r
    own = {id(parameter) for parameter in (*decaying.values(), *still.values())}
    leaf = [p for name, p in module.named_parameters() if id(p) not in own and _is_leaf(name)]
    rest = [p for name, p in module.named_parameters() if id(p) not in own and not _is_leaf(name)]
    groups = [
        (list(decaying.values()), recipe.weight_decay, rate),
        (list(still.values()), 0.0, rate),
        (leaf, 0.0, of_leaves),
        (rest, 0.0, rate),
    ]
    moving = [
        ([p for p in parameters if p.requires_grad], decay, min(top, LARGEST_RATE))
        for parameters, decay, top in groups
    ]
    moving = [group for group in moving if group[0]]
    if not moving:  # an optimiser needs a parameter; the first step says that nothing moves
        moving = [([module.b], 0.0, rate)]
    described = [
        {"params": parameters, "weight_decay": decay, "lr": top}
        for parameters, decay, top in moving
    ]
    rates = [top for _, _, top in moving]
    if isinstance(recipe.optimizer, str):
        return OPTIMIZERS[recipe.optimizer](described, lr=rates[0]), rates
    made = recipe.optimizer(described)
    if not isinstance(made, torch.optim.Optimizer):
        raise InputError(
            f"`optimizer` must make a torch optimiser, got {type(made).__name__}: return one, such "
            "as torch.optim.Adam(groups)."
        )
    return made, [group["lr"] for group in made.param_groups]


def _is_leaf(name: str) -> bool:
    return name == "v" or name == "base_score" or name.startswith("leaf_functions.")


def _leaf_unit(module: SoftForest, objective: Objective) -> float:
    """Return 1 for logits, which are of order one, else the standard deviation of the leaves."""
    if module.leaves == "logits":
        return 1.0
    unit = float(module.v.detach().std(correction=0))
    return unit if 0 < unit < np.inf else objective.deviation
