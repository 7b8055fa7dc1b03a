"""Groups of options of a retraining: its schedule, its penalties and its teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from bitvec.core.arrays import ArrayLike
from bitvec.errors import InputError

ERRORS = 1.0
"""Paired standard errors that a gain must exceed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Course of the soft training.

    Parameters
    ----------
    steps : int, optional
        Of a whole training; candidates are first tried in shorter ones. By default 1,500 for a
        single tree, 4,000 from 10,000 training rows on, and 300 for several trees.
    batch_size : int
        Rows in a step, of all processes together.
    optimizer : str or callable
        "adamw", "adam", "nadam", "rmsprop" or "sgd", or a function that makes a torch optimiser
        from parameter groups.
    learning_rate : float
        Of S, b and r in their standardised units and of leaf logits; other leaves move in their own
        standard deviation.
    rate_schedule : "cosine", "linear" or "constant"
        How the learning rate falls to 0 after `warmup` steps.
    warmup : int
    gamma : (first, last) or callable, optional
        Steepness, in units of each node's margin standard deviation, on the way given by
        `gamma_schedule`, or as a function of the part of the way. By default (1, 4), (4, 30) and
        (8, 60) are tried; without a search it is (8, 60) if S may not move, else (1, 4) for a
        classifier and (4, 30) for a regressor.
    gamma_schedule : "linear", "exponential", "cosine" or "constant"
    evaluations : int
        How often the hard forest is scored on the way, beside early looks from step 20 on.
    errors : float
        Paired standard errors that a gain on the validation rows must exceed.
    patience : int, optional
        Stop after so many evaluations in a row at which the hard forest was not clearly better.
    """

    steps: int | None = None
    batch_size: int = 512
    optimizer: str | Callable[..., Any] = "adamw"
    learning_rate: float = 0.03
    rate_schedule: str = "cosine"
    warmup: int = 0
    gamma: Any = None
    gamma_schedule: str = "linear"
    evaluations: int = 15
    errors: float = ERRORS
    patience: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Penalties:
    """Penalties on S and b.

    Parameters
    ----------
    weight_decay : float
        Of S and b, in their standardised units.
    l1 : float
        Pull of each standardised weight of S towards exactly 0, in units of the mean loss, so that
        rows read few features; .001 to .03 are usual.
    l2 : float
        Penalty on the squares of S.
    spatial : float
        Penalty on rows of S that are not smooth: over an image of `spatial_shape`, (height, width)
        or (n_channels, height, width), or over a graph with the Laplacian `spatial_matrix`.
    spatial_shape, spatial_matrix : optional
    """

    weight_decay: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    spatial: float = 0.0
    spatial_shape: tuple[int, ...] | None = None
    spatial_matrix: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """Another model, whose answers are learned beside the labels.

    Parameters
    ----------
    answers : array or callable
        Answers for the rows of X (class probabilities, or predictions), or the model's
        `predict_proba` or `predict`.
    weight : float
        The teacher's share of the loss, 0 to 1.
    temperature : float
        Divides the teacher's and the forest's log-probabilities.
    """

    answers: ArrayLike | Callable[[Any], Any]
    weight: float = 0.5
    temperature: float = 1.0


Group = TypeVar("Group", Schedule, Penalties, Teacher)


def group(name: str, given: Any, kind: type[Group]) -> Group:
    """Return a group of options from one, a mapping of names to values, or None.

    Raises
    ------
    InputError
        If it is something else or has an unknown name.

    Examples
    --------
    >>> group("schedule", {"steps": 100}, Schedule).steps
    100
    """
    if isinstance(given, kind):
        return given
    known = [field.name for field in fields(kind)]
    given = {} if given is None else given
    unknown = [key for key in given if key not in known] if isinstance(given, Mapping) else [given]
    if unknown:
        raise InputError(
            f"`{name}` must be a {kind.__name__} or a mapping of {', '.join(known)}, got "
            f"{unknown[0]!r}: name one of these."
        )
    return kind(**given)


def teacher_of(given: Any) -> Teacher | None:
    """Return a teacher from one, its answers, or a mapping that names them; None from None."""
    if given is None or isinstance(given, Teacher):
        return given
    if not isinstance(given, Mapping):
        return Teacher(given)
    if "answers" not in given:
        raise InputError(f"`teacher` must name its answers, got {', '.join(map(str, given))}.")
    return group("teacher", given, Teacher)
