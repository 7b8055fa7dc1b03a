"""Two answers to the same rows, compared: leaf ids one by one, raw scores in ulps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.forest import Forest
from bitvec.probing.float_keys import ulps
from bitvec.subject import Subject

EXAMPLES = 10
"""Differences of each kind that are kept with their rows."""
BLOCK = 1 << 22
"""Elements of X, or of leaf ids, held at a time."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One row on which the subject and the forest differ.

    `place` is a tree where `kind` is "leaf", and an output where it is "raw".
    """

    kind: str
    place: int
    expected: float | int
    got: float | int
    row: tuple[float, ...]

    def __str__(self) -> str:
        where = f"tree {self.place}, leaf id" if self.kind == "leaf" else f"output {self.place}"
        values = ", ".join(f"{x:.9g}" for x in self.row[:8]) + (
            ", ..." if len(self.row) > 8 else ""
        )
        return f"{where}: expected {self.expected!r}, got {self.got!r}, at ({values})"


@dataclass(slots=True)
class Tally:
    """The differences found so far between a subject and a forest.

    `exits` and `raw` answer for the forest; `leaf_id` holds the subject's id of each of its leaves.
    """

    forest: Forest
    subject: Subject
    exits: Callable[[Array], Array]
    raw: Callable[[Array], Array]
    leaf_id: Int[Array, " n_leaves"]
    n_rows: int = 0
    n_leaf_mismatches: int = 0
    n_raw_mismatches: int = 0
    max_ulp: int = 0
    max_difference: float = 0.0
    raw_dtype: str = ""
    examples: list[Difference] = field(default_factory=list)

    def add(self, X: Float[Array, "n n_features"]) -> None:
        """Compare on more rows, all of which the subject accepts."""
        step = max(1, BLOCK // max(self.forest.n_features, self.forest.n_trees, 1))
        for start in range(0, len(X), step):
            part = X[start : start + step]
            if self.subject.leaf_ids is not None:
                self._leaves(part, self.subject.leaf_ids(part))
            self._raw(part, np.asarray(self.subject.raw(part)))
            self.n_rows += len(part)

    def _leaves(self, X: Array, expected: Array) -> None:
        B = self.forest.bitvectors
        expected = _shaped("the subject's leaf ids", expected, (len(X), B.n_trees), "iuf")
        exits = _shaped("the forest's exit leaves", self.exits(X), (len(X), B.n_trees), "iu")
        inside = (exits >= 0) & (exits < np.diff(B.leaf_ptr))
        got = self.leaf_id[np.where(inside, exits, 0) + B.leaf_ptr[:-1]]
        # A number that names no leaf is kept as it is, to be read in the example.
        got = np.where(inside, got, exits)
        differs = (got != expected) | ~inside
        self.n_leaf_mismatches += int(differs.sum())
        self._keep("leaf", X, expected, got, differs)

    def _raw(self, X: Array, expected: Array) -> None:
        shape = (len(X), self.forest.n_outputs)
        expected = _shaped("the subject's raw scores", expected, shape, "f")
        got = _shaped("the forest's raw scores", self.raw(X), shape, "f")
        # Ulps need one dtype: the narrower, in which both can be said to agree.
        dtype = min(expected.dtype, got.dtype, key=lambda d: d.itemsize)
        if dtype not in (np.float32, np.float64):
            raise InputError(f"raw scores must be float32 or float64, got {dtype}.")
        self.raw_dtype = str(dtype)
        with np.errstate(over="ignore"):
            expected, got = expected.astype(dtype), got.astype(dtype)
        apart = ulps(expected, got)
        differs = apart > 0
        self.n_raw_mismatches += int(differs.any(axis=1).sum())
        if differs.any():
            self.max_ulp = max(self.max_ulp, int(apart.max()))
            with np.errstate(invalid="ignore", over="ignore"):
                gap = np.abs(expected[differs].astype(np.float64) - got[differs])
            self.max_difference = max(
                self.max_difference, float(np.where(np.isnan(gap), np.inf, gap).max())
            )
            self._keep("raw", X, expected, got, differs)

    def _keep(self, kind: str, X: Array, expected: Array, got: Array, differs: Array) -> None:
        space = EXAMPLES - sum(example.kind == kind for example in self.examples)
        for row, place in np.argwhere(differs)[: max(space, 0)]:
            self.examples.append(
                Difference(
                    kind,
                    int(place),
                    expected[row, place].item(),
                    got[row, place].item(),
                    tuple(float(x) for x in X[row]),
                )
            )


def _shaped(what: str, value: Array, shape: tuple[int, int], kinds: str) -> Array:
    value = np.asarray(value)
    if value.shape == shape[:1] and shape[1] == 1:
        value = value[:, None]
    if value.shape != shape or value.dtype.kind not in kinds:
        raise InputError(
            f"{what} must have shape {shape} and hold {'numbers' if 'f' in kinds else 'integers'}, "
            f"got {value.dtype} of shape {value.shape}."
        )
    return value


def rounding_bound(forest: Forest, dtype: np.dtype) -> float | None:
    """Return how far two orders of summation in `dtype` can bring raw scores apart.

    None for forests whose leaf values depend on x (linear leaves, a prediction kernel).

    Notes
    -----
    A sum of n terms is within (n − 1)·eps/(1 − n·eps) · sum|terms| of its true value in every order
    (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2, with eps twice the unit
    roundoff); each product with a tree weight, the division of a mean and the base score add one
    rounding each, and both sides may err.
    """
    if forest.leaves.linear is not None or forest.kernel is not None:
        return None
    output, B = forest.output, forest.bitvectors
    assert output.base_score is not None
    largest = np.abs(forest.leaves.v.astype(np.float64)).max(axis=1, initial=0.0)
    per_tree = np.maximum.reduceat(largest, B.leaf_ptr[:-1]) if B.n_trees else np.zeros(0)
    if output.tree_weight is not None:
        per_tree = per_tree * np.abs(output.tree_weight.astype(np.float64))
    total = float(per_tree.sum()) + float(np.abs(output.base_score).max())
    steps = (B.n_trees + 4) * float(np.finfo(dtype).eps)
    return 2 * steps / (1 - steps) * total if steps < 1 else None


def accepted_rows(forest: Forest, subject: Subject, X: Array | None) -> tuple[Array, int]:
    """Return the rows of X that the subject accepts, cast, and how many it does not."""
    if X is None:
        return np.zeros((0, forest.n_features), forest.dtype), 0
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != forest.n_features or X.dtype.kind not in "biuf":
        raise InputError(
            f"`X` must be numbers of shape (n, {forest.n_features}), got {X.dtype} of shape "
            f"{X.shape}: pass the training columns."
        )
    with np.errstate(over="ignore"):
        X = X.astype(forest.dtype)
    accepted = np.ones(len(X), bool)
    if not subject.accepts_missing:
        accepted &= ~np.isnan(X).any(axis=1)
    if not subject.accepts_infinite:
        accepted &= ~np.isinf(X).any(axis=1)
    return X[accepted], int(np.sum(~accepted))


def numbering(forest: Forest, subject: Subject, leaf_id: Array | None) -> Array:
    """Return the subject's id of each leaf: given, the source's, or the number in its tree."""
    B, source = forest.bitvectors, forest.source
    if leaf_id is not None:
        if np.shape(leaf_id) != (B.n_leaves,):
            raise InputError(
                f"`leaf_id` must have shape ({B.n_leaves},), got {np.shape(leaf_id)}: one per leaf."
            )
        return np.asarray(leaf_id)
    if source is not None and source.leaf_id is not None and source.library == subject.name:
        return source.leaf_id
    within: Array = np.arange(B.n_leaves) - np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    return within
