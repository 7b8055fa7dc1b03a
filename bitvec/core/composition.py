"""Compositions: several forests, each behind its own link and curves, combined into one answer.

A forest adds up its trees and then applies a link. Soft voting, calibration and bagging of forests
average what comes after the links, a transformed target bends it, so that no sum over trees holds
them. A composition keeps each member as the forest that it is, and does with the members' answers
what the source does: the same operations of NumPy, in its order and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from bitvec.core.arrays import Array, put, read_only, require
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.shape_annotations import Float, Float64
from bitvec.core.transforms import c_exp


class Asked(StrEnum):
    """Answers of a member that a composition takes."""

    PROBABILITIES = "probabilities"
    """Probabilities of all classes, (batch, n_classes)."""
    RAW = "raw"
    """Raw scores, (batch, n_outputs)."""
    PREDICTION = "prediction"
    """Values that a regressor predicts, (batch,)."""


class Combined(StrEnum):
    """Ways in which members become one answer."""

    AVERAGE = "average"
    """Average of the stacked members with the weights, as numpy.average has it."""
    MEAN_IN_ORDER = "mean_in_order"
    """Sum of the members, one after the other, divided by their number."""
    ALONE = "alone"
    """Answer of the only member."""


STEPS: Final[dict[str, Callable[..., Array]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "exp": np.exp,
    "expm1": np.expm1,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "square": np.square,
    "cbrt": np.cbrt,
    "sinh": np.sinh,
    "arcsinh": np.arcsinh,
    "negative": np.negative,
}
"""Functions of NumPy that a curve may be made of; the first four take a number."""
_WITH_NUMBER: Final = ("add", "subtract", "multiply", "divide")


@dataclass(frozen=True, slots=True)
class Logistic:
    """1 / (1 + exp(a · x + b)), of scipy's expit, in float64."""

    a: float
    b: float

    def __post_init__(self) -> None:
        require(np.isfinite(self.a) and np.isfinite(self.b), "`a` and `b` must be finite.")

    def __call__(self, x: Float[Array, " batch"]) -> Float64[Array, " batch"]:
        """Return the values at x."""
        with np.errstate(over="ignore"):
            value: Array = 1 / (1 + c_exp(np.float64(self.a) * x + np.float64(self.b)))
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Interpolated:
    """Straight lines through the points (x, y), constant beyond them; float64.

    Parameters
    ----------
    x, y : float64, (n_points,)
        x rises.
    """

    x: Float64[Array, " n_points"]
    y: Float64[Array, " n_points"]

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            array = read_only(name, getattr(self, name), np.dtype(np.float64), (None,))
            put(self, **{name: array})
        require(self.x.size == self.y.size >= 1, "`x` and `y` must hold the same points.")
        require(np.all(np.isfinite(self.x)) and np.all(np.isfinite(self.y)), "must be finite.")
        require(np.all(np.diff(self.x) >= 0), "`x` must rise.")

    def __call__(self, x: Float[Array, " batch"]) -> Float64[Array, " batch"]:
        """Return the values at x."""
        x = np.clip(x.astype(np.float64), self.x[0], self.x[-1])
        if self.x.size == 1:
            return self.y.repeat(x.size)
        value: Array = np.interp(x, self.x, self.y)
        return value


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Functions of NumPy one after the other, each in the dtype that it is given.

    Parameters
    ----------
    steps : tuple of (str, float or None)
        Names of `STEPS`, the first four with a number, as float64.
    """

    steps: tuple[tuple[str, float | None], ...]

    def __post_init__(self) -> None:
        for name, number in self.steps:
            require(name in STEPS, f"a step must be one of {', '.join(STEPS)}, got {name!r}.")
            require((number is not None) == (name in _WITH_NUMBER), f"{name!r} takes no number.")

    def __call__(self, x: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Return the values at x."""
        with np.errstate(all="ignore"):
            for name, number in self.steps:
                x = STEPS[name](x) if number is None else STEPS[name](x, np.float64(number))
        return x


Curve = Logistic | Interpolated | Elementwise


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A forest, or a composition, of which another answer is made.

    Parameters
    ----------
    model : Forest or Composition
    asked : Asked
    columns : tuple of int, optional
        The columns of X that it reads, all if not given.
    outputs : tuple of int, optional
        For each column of its answer the class of the composition that it tells of; in their order
        if not given.
    curves : tuple of Curve
        For each column of its answer; none leaves it as it is. A classifier's curves tell each
        class apart from the others, so that they are made to add up to 1 then.
    """

    model: Forest | Composition
    asked: Asked
    columns: tuple[int, ...] | None = None
    outputs: tuple[int, ...] | None = None
    curves: tuple[Curve, ...] = ()

    def __post_init__(self) -> None:
        put(self, asked=Asked(self.asked))
        if isinstance(self.model, Composition):
            require(self.asked != Asked.RAW, "a composition has no raw scores.")
        require(
            self.columns is None or len(self.columns) == self.model.inputs.n_features,
            f"`columns` must name the {self.model.inputs.n_features} columns of the member.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Forests whose answers are combined behind their links.

    Parameters
    ----------
    members : tuple of Member
    combined : Combined
    inputs : Inputs
        Of the columns of X.
    classes : labels, (n_classes,), optional
        Which makes this a classifier, whose label is the first of the highest probability.
    weights : numbers, (n_members,), optional
        Of an average, in the dtype that NumPy gives the source's list.
    kind : str
        The source's class, for people.

    Notes
    -----
    NumPy adds the members of an average one after the other, but 8 or more of a single row in an
    order of its own, so that a source's answer to a row depends on whether it stands alone. The
    answers here are those of batches.

    Examples
    --------
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> two = Composition(
    ...     (Member(stump, Asked.PREDICTION), Member(stump, Asked.PREDICTION)),
    ...     Combined.AVERAGE, stump.inputs, weights=np.array([1.0, 3.0]),
    ... )
    >>> two.answer([np.array([10.0, 20.0]), np.array([20.0, 20.0])]).tolist()
    [17.5, 20.0]
    """

    members: tuple[Member, ...]
    combined: Combined
    inputs: Inputs
    classes: Array | None = None
    weights: Array | None = None
    kind: str = ""

    def __post_init__(self) -> None:
        put(self, members=tuple(self.members), combined=Combined(self.combined))
        require(self.members, "`members` must hold at least one member.")
        require(
            self.combined != Combined.ALONE or len(self.members) == 1,
            f"a member alone must be the only one, got {len(self.members)}.",
        )
        require(
            self.weights is None
            or (self.combined == Combined.AVERAGE and self.weights.shape == (len(self.members),)),
            "`weights` must be one for each member of an average.",
        )
        require(
            self.weights is None or (np.all(np.isfinite(self.weights)) and self.weights.sum() != 0),
            f"`weights` must be finite and must not add up to 0, got {self.weights}.",
        )
        for member in self.members:
            self._check(member)

    def _check(self, member: Member) -> None:
        n = self.inputs.n_features
        require(
            member.columns is not None or member.model.inputs.n_features == n,
            f"a member must read the {n} columns of X, got {member.model.inputs.n_features}.",
        )
        require(
            all(0 <= column < n for column in member.columns or ()),
            f"`columns` must be below {n}.",
        )
        classifies = self.classes is not None
        require(
            (member.asked == Asked.PREDICTION) != classifies,
            "members must answer probabilities or raw scores of a classifier, else predictions.",
        )
        require(classifies or member.outputs is None, "`outputs` of members hold for a classifier.")
        require(
            all(0 <= output < self.n_outputs for output in member.outputs or ()),
            f"`outputs` must be below {self.n_outputs}.",
        )

    @property
    def n_outputs(self) -> int:
        """Columns of the answer: classes, or 1."""
        return 1 if self.classes is None else self.classes.size

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.inputs.n_features

    @property
    def dtype(self) -> np.dtype:
        """The widest dtype that its forests compare in."""
        return np.result_type(*(forest.dtype for forest in self.forests))

    @property
    def n_trees(self) -> int:
        """Trees of all members."""
        return sum(member.model.n_trees for member in self.members)

    @property
    def n_nodes(self) -> int:
        """Nodes of all members."""
        return sum(forest.n_nodes for forest in self.forests)

    @property
    def n_leaves(self) -> int:
        """Leaves of all members."""
        return sum(forest.n_leaves for forest in self.forests)

    @property
    def forests(self) -> tuple[Forest, ...]:
        """All forests, those of compositions among the members too."""
        found: list[Forest] = []
        for member in self.members:
            model = member.model
            found += [model] if isinstance(model, Forest) else model.forests
        return tuple(found)

    def with_forests(self, change: Callable[[Forest], Forest]) -> Composition:
        """Return the composition with each forest changed, all over the same new columns.

        Raises
        ------
        InvalidForestError
            If a member reads some of the columns only.
        """
        require(
            all(member.columns is None for member in self.members),
            "forests that read some of the columns only cannot be put over others.",
        )
        members = tuple(
            replace(
                member,
                model=change(member.model)
                if isinstance(member.model, Forest)
                else member.model.with_forests(change),
            )
            for member in self.members
        )
        return replace(self, members=members, inputs=members[0].model.inputs)

    def answer(self, parts: list[Array]) -> Array:
        """Return the combined answer, (batch, n_classes) or (batch,).

        Parameters
        ----------
        parts : list of arrays
            What each member was asked for.
        """
        found = [self._curved(*pair) for pair in zip(self.members, parts, strict=True)]
        if self.combined == Combined.ALONE:
            return found[0]
        if self.combined == Combined.AVERAGE:
            return self._average(found)
        if self.classes is None:
            total = 0 + found[0]
            for part in found[1:]:
                total = total + part
            return total / len(found)
        total = np.zeros((len(found[0]), self.n_outputs))
        for member, part in zip(self.members, found, strict=True):
            if member.outputs is None or part.shape[1] == self.n_outputs:
                total += part
            else:
                total[:, list(member.outputs)] += part
        return total / len(found)

    def _average(self, found: list[Array]) -> Array:
        n = len(found[0])  # fewer than two rows are averaged as two: NumPy has no mean of none
        parts = [np.resize(part, (2, *part.shape[1:])) for part in found] if n < 2 else found
        if self.classes is None:
            value = np.average(np.asarray(parts).T, axis=1, weights=self.weights)
        else:
            value = np.average(np.asarray(parts), axis=0, weights=self.weights)
        result: Array = value[:n]
        return result

    def _curved(self, member: Member, part: Array) -> Array:
        if not member.curves:
            return part
        if self.classes is None:
            return member.curves[0](part)
        n = self.n_outputs
        if n == 2:
            part = part[:, -1:]
        outputs = (1,) if n == 2 else member.outputs or range(n)
        value = np.zeros((len(part), n))
        for output, column, curve in zip(outputs, part.T, member.curves, strict=True):
            value[:, output] = curve(column)
        if n == 2:
            value[:, 0] = 1.0 - value[:, 1]
        else:
            total = np.sum(value, axis=1)[:, np.newaxis]
            even = np.full_like(value, 1 / n)
            value = np.divide(value, total, out=even, where=total != 0)
        value[(value > 1.0) & (value <= 1.0 + 1e-5)] = 1.0
        return value

    def labels(self, answer: Float[Array, "batch n_classes"]) -> Array:
        """Return the label of the first class of highest probability."""
        assert self.classes is not None
        return self.classes[answer.argmax(axis=1)]

    def __repr__(self) -> str:
        what = "classifier" if self.classes is not None else "regressor"
        origin = f", from {self.kind}" if self.kind else ""
        members = f"{len(self.members)} member{'s' * (len(self.members) != 1)}"
        return f"Composition({members}, {self.n_trees} trees, {what}{origin})"


Converted = Forest | Composition
"""Results of a conversion: a forest, or several in a composition."""
