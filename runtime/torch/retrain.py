"""Retraining: relax, anneal, harden, and keep the hard forest that validation prefers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bitvec import reference
from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.forest import Forest
from bitvec.runtime.torch import leaf_refit, objective
from bitvec.runtime.torch.engine import TorchEngine
from bitvec.runtime.torch.harden import harden
from bitvec.runtime.torch.module import SoftForest
from bitvec.runtime.torch.objective import Objective
from bitvec.runtime.torch.selection import Evaluation, Selection

MOVABLE = ("S", "b", "v", "r")
Progress = Callable[[Evaluation], None]
PARALLEL_SIZE = 1 << 21
"""Elements of the margins of a batch from which more than one thread pays."""


SHARPNESS = 16.0
"""Of averaged class probabilities; 8 to 16 measured best."""


@dataclass(frozen=True, slots=True, eq=False)
class RetrainResult:
    """What retraining returns.

    Parameters
    ----------
    forest : Forest
        A hard forest, on the validation rows never worse than the one that went in; that one
        itself where nothing was clearly better.
    improved : bool
        Whether `forest` is another one.
    metric : str
        What the scores are; more is better.
    start_score, score : float
        On the validation rows, before and after.
    movable : tuple of str
        What was allowed to move.
    history : tuple of Evaluation
    note : str
        What to try where nothing was better, else empty.
    """

    forest: Forest
    improved: bool
    metric: str
    start_score: float
    score: float
    movable: tuple[str, ...]
    history: tuple[Evaluation, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Recipe:
    relaxation: str
    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    gamma: tuple[float, float]
    evaluations: int
    seed: int
    device: torch.device
    progress: Progress | None


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    X: Array
    target: Array
    weight: Array


def retrain(
    forest: Forest,
    X: Array,
    y: Array,
    *,
    movable: Iterable[str] | None = None,
    sample_weight: Array | None = None,
    validation: float | tuple[Array, Array] = 0.15,
    relaxation: str = "sigmoid",
    steps: int | None = None,
    batch_size: int = 512,
    learning_rate: float = 0.03,
    weight_decay: float = 0.1,
    gamma: tuple[float, float] | None = None,
    evaluations: int = 15,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> RetrainResult:
    """Retrain a forest; what comes back is hard and on validation never worse than what went in.

    Parameters
    ----------
    X : numbers, (batch, n_features)
        NaN and category codes as the forest reads them.
    y : (batch,) or (batch, n_groups)
        Labels among `forest.output.classes`, or finite numbers for a regressor.
    movable : names among "S", "b", "v", "r", optional
        What may move; all else comes back bit for bit. By default "S", "b" and "v" of a single
        tree, and "v" of several: axis-aligned tests stay so while "S" is not named.
    sample_weight : (batch,), optional
    validation : float or (X, y)
        The rows to choose by, or the share of X to hold out as such. They must be rows that the
        forest was not fitted on: on its own training rows it scores too well to be improved.
    relaxation : str
        See `relaxations.RELAXATIONS`.
    steps : int, optional
        By default 1,500, and 4,000 from 10,000 training rows on.
    weight_decay : float
        On S and b, in their standardised units.
    gamma : (first, last), optional
        Steepness, raised linearly, in units of each node's margin standard deviation. By default
        (1, 4) if S may move, else (8, 60).
    evaluations : int
        How often the hard forest is scored on the way.
    seed : int
        Fixes the split and the batches; on the CPU the result is then the same each time.
    progress : callable, optional
        Called with each `Evaluation`.

    Raises
    ------
    InputError
        If X, y, weights, names or numbers are out of place.
    UnsupportedModelError
        If the forest cannot be relaxed.

    Notes
    -----
    Single tree: features standardised, rows and thresholds divided by their margin's standard
    deviation, leaf logits from counts, AdamW with a cosine, and after each hardening leaves counted
    anew; a leaf that no row reaches keeps what it learned.
    """
    names = _names(forest, movable)
    data, held_out, goal = _split(forest, X, y, sample_weight, validation, seed)
    recipe = _Recipe(
        relaxation,
        (4000 if len(data.X) >= 10_000 else 1500) if steps is None else _positive("steps", steps),
        _positive("batch_size", batch_size),
        learning_rate,
        weight_decay,
        gamma or ((1.0, 4.0) if "S" in names else (8.0, 60.0)),
        _positive("evaluations", evaluations),
        seed,
        torch.device("cpu" if device is None else device),
        progress,
    )
    _check_numbers(recipe)
    # Refuses a forest that cannot be relaxed before any work is done.
    probabilities = leaf_refit.has_probability_leaves(forest)
    if probabilities and forest.n_trees > 1:
        goal = replace(goal, sharpness=SHARPNESS)
    module = SoftForest.from_forest(
        forest,
        relaxation,
        movable=names,
        gamma=recipe.gamma[0],
        leaves="logits" if probabilities else "values",
    ).to(recipe.device)
    selection = Selection(forest, goal, held_out.X, held_out.target, held_out.weight)
    if progress is not None:
        progress(selection.history[0])
    if "v" in names and "S" not in names:
        _refit_leaves(forest, goal, data, held_out, selection, recipe)
    if set(names) & {"S", "b", "r"}:
        with _few_threads(forest.n_nodes * recipe.batch_size, recipe.device):
            _train_soft(module, goal, data, selection, recipe)
    improved = selection.best is not forest
    note = ""
    if not improved and not isinstance(validation, tuple):
        note = (
            "Nothing was better on the rows held out. If the forest was fitted on them, its score "
            "there is too good: pass validation=(X, y) that it has not seen."
        )
    return RetrainResult(
        selection.best,
        improved,
        goal.metric,
        selection.start_score,
        selection.score,
        names,
        tuple(selection.history),
        note,
    )


@contextmanager
def _few_threads(size: int, device: torch.device) -> Iterator[None]:
    """Hold torch to one thread while its operations are small, where threads only wait."""
    threads = torch.get_num_threads()
    if size >= PARALLEL_SIZE or device.type != "cpu":
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _names(forest: Forest, movable: Iterable[str] | None) -> tuple[str, ...]:
    if movable is None:
        return ("S", "b", "v") if forest.n_trees == 1 else ("v",)
    names = (movable,) if isinstance(movable, str) else tuple(movable)
    for name in names:
        if name not in MOVABLE:
            raise InputError(
                f"`movable` must hold names among {', '.join(MOVABLE)}, got {name!r}: leave it out."
            )
    if not names:
        raise InputError("`movable` must name at least one of S, b, v and r, got none.")
    return names


def _positive(name: str, value: int) -> int:
    if int(value) != value or value < 1:
        raise InputError(f"`{name}` must be a whole number from 1 on, got {value!r}.")
    return int(value)


def _check_numbers(recipe: _Recipe) -> None:
    first, last = recipe.gamma
    for name, value in (
        ("learning_rate", recipe.learning_rate),
        ("gamma", first),
        ("gamma", last),
    ):
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"`{name}` must be positive and finite, got {value!r}.")
    if not (np.isfinite(recipe.weight_decay) and recipe.weight_decay >= 0):
        raise InputError(f"`weight_decay` must not be negative, got {recipe.weight_decay!r}.")


def _split(
    forest: Forest,
    X: Array,
    y: Array,
    sample_weight: Array | None,
    validation: float | tuple[Array, Array],
    seed: int,
) -> tuple[_Data, _Data, Objective]:
    X = _rows(forest, X, "X")
    target = objective.targets(forest.output, y, len(X))
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (len(X),) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise InputError(
            f"`sample_weight` must hold {len(X)} finite weights that are not negative, "
            f"got shape {weight.shape}."
        )
    goal = objective.build(forest.output, target) if len(X) else None
    if isinstance(validation, tuple):
        Xv = _rows(forest, validation[0], "the validation rows")
        target_v = objective.targets(forest.output, validation[1], len(Xv), "the validation y")
        held_out = _Data(Xv, target_v, np.ones(len(Xv)))
        data = _Data(X, target, weight)
    else:
        if not 0 < validation < 1:
            raise InputError(
                f"`validation` must be a share between 0 and 1, or (X, y), got {validation!r}."
            )
        order = np.random.default_rng(seed).permutation(len(X))
        n = round(len(X) * validation)
        parts = [_Data(X[at], target[at], weight[at]) for at in (order[n:], order[:n])]
        data, held_out = parts
    for part, what in ((data, "training"), (held_out, "validation")):
        if len(part.X) < 2 or part.weight.sum() <= 0:
            raise InputError(
                f"at least 2 {what} rows of positive weight are needed, got {len(part.X)}: "
                "pass more rows."
            )
    assert goal is not None
    return data, held_out, goal


def _rows(forest: Forest, X: Array, name: str) -> Array:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(X).astype(forest.dtype, copy=False)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be numbers: encode categories as their codes.") from None
    if array.ndim != 2 or array.shape[1] != forest.n_features:
        raise InputError(
            f"`{name}` must have {forest.n_features} features, got shape {array.shape}: "
            "pass the training columns."
        )
    return array


def _refit_leaves(
    forest: Forest,
    goal: Objective,
    data: _Data,
    held_out: _Data,
    selection: Selection,
    recipe: _Recipe,
) -> None:
    exits = TorchEngine(forest, recipe.device).exit_leaves(data.X)
    held_out_exits = TorchEngine(forest).exit_leaves(held_out.X).astype(np.int64)
    table = leaf_refit.design(forest, exits, recipe.device)

    def offer(v: Array, step: int, steps: int, loss: float = np.nan) -> None:
        leaves = replace(forest.leaves, v=v.astype(forest.leaves.v.dtype))
        candidate = replace(forest, leaves=leaves)
        raw = reference.accumulate(candidate, held_out.X, held_out_exits)
        _tell(recipe, selection.consider(candidate, "leaves", step, steps, loss=loss, raw=raw))

    if leaf_refit.is_quadratic(goal):
        fits = leaf_refit.ridge(forest, table, data.target, data.weight)
        for step, (_, v) in enumerate(fits, start=1):
            offer(v, step, len(leaf_refit.PENALTIES))
        return
    _descend_leaves(forest, table, goal, data, recipe, offer)


def _descend_leaves(
    forest: Forest,
    table: leaf_refit.LeafDesign,
    goal: Objective,
    data: _Data,
    recipe: _Recipe,
    offer: Callable[[Array, int, int, float], None],
) -> None:
    device = recipe.device
    logits = leaf_refit.has_probability_leaves(forest)
    start = torch.tensor(forest.leaves.v, dtype=torch.float32, device=device)
    if logits:
        start = start.clamp_min(1e-2).log()
    unit = float(start.std()) or 1.0
    v = start.clone().requires_grad_()
    base = torch.tensor(forest.output.base_score, dtype=torch.float32, device=device)
    target = torch.tensor(data.target, device=device)
    weight = torch.tensor(data.weight / data.weight.mean(), dtype=torch.float32, device=device)
    optimizer = torch.optim.Adam([v], lr=0.05 * unit)
    batches = _batches(len(data.X), recipe)
    steps, loss_sum, since = recipe.steps, 0.0, 0
    every = max(1, steps // recipe.evaluations)
    for step, rows in enumerate(batches):
        _cosine(optimizer, [0.05 * unit], step / steps)
        vectors = torch.softmax(v, dim=1) if logits else v
        raw = table.raw(vectors, rows) + base
        loss = (goal.losses(raw, target[rows]) * weight[rows]).mean()
        pull = leaf_refit.PULL * ((v - start) / unit).square().mean()
        optimizer.zero_grad(set_to_none=True)
        (loss + pull).backward()
        optimizer.step()
        loss_sum, since = loss_sum + float(loss.detach()), since + 1
        if (step + 1) % every == 0 or step + 1 == steps:
            with torch.no_grad():
                vectors = torch.softmax(v, dim=1) if logits else v
                offer(vectors.cpu().numpy(), step + 1, steps, loss_sum / since)
            loss_sum, since = 0.0, 0


def _batches(n_rows: int, recipe: _Recipe) -> Iterable[Tensor]:
    generator = torch.Generator().manual_seed(recipe.seed)
    for _ in range(recipe.steps):
        rows = torch.randint(n_rows, (recipe.batch_size,), generator=generator)
        yield rows.to(recipe.device)


def _cosine(optimizer: torch.optim.Optimizer, rates: list[float], part: float) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * 0.5 * (1 + np.cos(np.pi * part))


def _tell(recipe: _Recipe, evaluation: Evaluation) -> None:
    if recipe.progress is not None:
        recipe.progress(evaluation)


def _train_soft(
    module: SoftForest, goal: Objective, data: _Data, selection: Selection, recipe: _Recipe
) -> None:
    """Train the relaxed forest, hardening and scoring it on the way.

    No flush-to-zero is used: it gained nothing here, and inference needs subnormal numbers.
    """
    forest = module.forest
    module.calibrate(data.X)
    rows = module.prepare(data.X)
    _start_leaves(module, goal, data, rows)
    target = torch.tensor(data.target, device=recipe.device)
    weight = torch.tensor(
        data.weight / data.weight.mean(), dtype=module.dtype, device=recipe.device
    )
    optimizer, rates = _optimizer(module, goal, recipe)
    by_likelihood = module.leaves == "logits" and forest.n_trees == 1
    steps, loss_sum, since = recipe.steps, 0.0, 0
    every = max(1, steps // recipe.evaluations)
    first, last = recipe.gamma
    for step, index in enumerate(_batches(len(data.X), recipe)):
        module.gamma = first + (last - first) * step / steps
        _cosine(optimizer, rates, step / steps)
        batch, label = rows.take(index), target[index]
        if by_likelihood:
            log_class = torch.log_softmax(module.v, dim=1)[:, label[:, 0]]
            losses = -torch.logsumexp(module.log_memberships(batch) + log_class, dim=0)
        else:
            losses = goal.losses(module(batch), label)
        loss = (losses * weight[index]).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if module.rows is not None and "r" in module.movable:
            module.rows.keep_signs()
        loss_sum, since = loss_sum + float(loss.detach()), since + 1
        if (step + 1) % every == 0 or step + 1 == steps:
            candidate = _counted(harden(module), module, goal, data, rows)
            evaluation = selection.consider(
                candidate, "soft", step + 1, steps, loss=loss_sum / since, gamma=module.gamma
            )
            _tell(recipe, evaluation)
            loss_sum, since = 0.0, 0


def _optimizer(
    module: SoftForest, goal: Objective, recipe: _Recipe
) -> tuple[torch.optim.Optimizer, list[float]]:
    # Logits are of order one; other leaf vectors move in their own standard deviation.
    unit = 1.0
    if module.leaves == "values":
        unit = float(module.v.detach().std(correction=0)) or goal.deviation
    decayed, rates = [module.b], [recipe.learning_rate]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}]
    if module.rows is not None:
        decayed += [module.rows.S, module.rows.offset]
        groups.append({"params": [module.rows.r], "weight_decay": 0.0})
        rates.append(recipe.learning_rate)
    groups.append({"params": [module.v], "weight_decay": 0.0})
    rates.append(recipe.learning_rate * unit)
    for group in groups:
        group["params"] = [p for p in group["params"] if p.requires_grad]  # type: ignore[attr-defined]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate), rates


@torch.no_grad()
def _start_leaves(module: SoftForest, goal: Objective, data: _Data, rows: object) -> None:
    if module.leaves != "logits" or "v" not in module.movable or module.forest.n_trees != 1:
        return
    counted = _counted(module.forest, module, goal, data, rows)
    # A leaf that no row reaches has the probabilities of the start, which may be 0.
    module.v.copy_(torch.tensor(counted.leaves.v, dtype=module.dtype).clamp_min(1e-3).log())


@torch.no_grad()
def _counted(
    candidate: Forest, module: SoftForest, goal: Objective, data: _Data, rows: object
) -> Forest:
    """Return a single tree with its leaves counted anew on the training rows, hard routing."""
    if candidate.n_trees != 1 or "v" not in module.movable or candidate.leaves.output is not None:
        return candidate
    v, output = candidate.leaves.v, candidate.output
    if module.leaves == "logits":
        leaf = module.exit_leaves(rows)[0].cpu().numpy()  # type: ignore[arg-type]
        counted, reached = leaf_refit.counted_probabilities(
            leaf, data.target[:, 0], data.weight, v.shape
        )
    elif leaf_refit.is_quadratic(goal):
        leaf = module.exit_leaves(rows)[0].cpu().numpy()  # type: ignore[arg-type]
        factor = 1.0 if output.tree_weight is None else float(output.tree_weight[0])
        if factor == 0:
            return candidate
        wanted = (data.target - output.base_score) / factor
        counted, reached = leaf_refit.counted_means(leaf, wanted, data.weight, len(v))
    else:
        return candidate
    new = np.where(reached[:, None], counted, v).astype(v.dtype)
    return replace(candidate, leaves=replace(candidate.leaves, v=new))
