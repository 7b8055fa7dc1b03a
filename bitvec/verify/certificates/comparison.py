"""Two answers to the same rows, compared: leaf ids and labels one by one, scores in ulps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bitvec.core import links
from bitvec.core.arrays import Array
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Float, Int, UInt64
from bitvec.errors import InputError
from bitvec.verify.certificates.difference import Difference
from bitvec.verify.oracle import Oracle

Answer = Callable[[Array], Array]

EXAMPLES = 10
"""Differences of each kind that are kept with their rows."""
BLOCK = 1 << 22
"""Elements of X, or of leaf ids, held at a time."""
SCORE_ULPS = 8
"""Distance of equal raw scores, at most, after an exponential. Libraries of mathematics round expf
and its like to within 1 or 2 ulp, and the sum and the quotient around it add one rounding each, on
both sides of the comparison."""
MOST_SCORE_ULPS = 512
"""Their distance, at most, where an oracle says that its post-transform approximates."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The forest's answers to rows in its dtype.

    `exits` returns leaf numbers within each tree, (batch, n_trees); `raw` and `scores` return
    (batch, n_outputs); `predict` returns labels, or a regressor's values.
    """

    exits: Answer
    raw: Answer
    scores: Answer
    predict: Answer


@dataclass(slots=True)
class Tally:
    """The differences found so far between an oracle and a forest.

    `answers` speaks for the forest; `leaf_id` holds the oracle's id of each of its leaves.
    `seen` marks the leaves at which a row was seen, where leaf ids are compared; `n_answered`
    counts the rows on which predictions, scores and labels were compared; `raw_dtypes` are those of
    the oracle's raw scores and of the forest's.
    """

    forest: Forest
    oracle: Oracle
    answers: Answers
    leaf_id: Int[Array, " n_leaves"]
    n_rows: int = 0
    n_answered: int = 0
    n_leaf_mismatches: int = 0
    n_value_mismatches: int = 0
    n_raw_mismatches: int = 0
    n_label_mismatches: int = 0
    max_ulp: int = 0
    max_difference: float = 0.0
    max_score_ulp: int = 0
    raw_dtypes: tuple[np.dtype, ...] = ()
    examples: list[Difference] = field(default_factory=list)
    seen: Bool[Array, " n_leaves"] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.forest.bitvectors.n_leaves, np.bool_)

    @property
    def raw_dtype(self) -> str:
        """The narrower dtype of raw scores, in which they are compared; "" before any row."""
        return min(self.raw_dtypes, key=lambda dtype: dtype.itemsize).name if self.n_rows else ""

    def add(self, X: Float[Array, "n n_features"]) -> None:
        """Compare on more rows, all of which the oracle accepts."""
        step = max(1, BLOCK // max(self.forest.n_features, self.forest.n_trees, 1))
        for start in range(0, len(X), step):
            part = X[start : start + step]
            if self.oracle.leaf_ids is not None:
                self._leaves(part, self.oracle.leaf_ids(part))
            raw = np.asarray(self.oracle.raw(part))
            agrees = self._raw(part, raw)
            # Where sums may differ by rounding, so may what follows from them.
            used = np.ones(len(part), np.bool_) if self.oracle.exact else agrees
            self._answers(part[used], raw[used])
            self.n_answered += int(used.sum())
            self.n_rows += len(part)

    def add_leaf_values(self) -> None:
        """Compare what the two store at their leaves, bit for bit."""
        if self.oracle.leaf_values is None:
            return
        B, got = self.forest.bitvectors, self.forest.leaves.v
        tree, ids, v = map(np.asarray, self.oracle.leaf_values())
        if v.ndim != 2 or v.shape[1] != got.shape[1] or not tree.shape == ids.shape == v.shape[:1]:
            raise InputError(
                f"the oracle's leaf values must have {got.shape[1]} columns, one row for each of "
                f"its ids, got shapes {tree.shape}, {ids.shape} and {v.shape}."
            )
        own_tree = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
        most = 1 + max(int(ids.max(initial=0)), int(self.leaf_id.max(initial=0)))
        theirs, ours = tree * most + ids, own_tree * most + self.leaf_id
        order = np.argsort(theirs)
        place = np.minimum(np.searchsorted(theirs, ours, sorter=order), max(len(theirs) - 1, 0))
        expected = np.full(got.shape, np.nan)
        known = np.zeros(len(got), np.bool_)
        if len(theirs):
            known[:] = theirs[order[place]] == ours
            expected[known] = v[order[place[known]]]
        # float64 holds every float32; a signed zero counts, one NaN is as good as another.
        same = (expected == got) & (np.signbit(expected) == np.signbit(got))
        differs = ~(same | (np.isnan(expected) & np.isnan(got))) | ~known[:, None]
        self.n_value_mismatches += int(differs.any(axis=1).sum())
        for leaf in np.flatnonzero(differs.any(axis=1))[:EXAMPLES]:
            column = int(differs[leaf].argmax())
            pair = expected[leaf, column].item(), got[leaf, column].item()
            self.examples.append(Difference("value", int(leaf), *pair, ()))

    def _leaves(self, X: Array, expected: Array) -> None:
        B = self.forest.bitvectors
        expected = _shaped("the oracle's leaf ids", expected, (len(X), B.n_trees), "iuf")
        exits = self.answers.exits(X)
        exits = _shaped("the forest's exit leaves", exits, (len(X), B.n_trees), "iu")
        inside = (exits >= 0) & (exits < np.diff(B.leaf_ptr))
        leaf = np.where(inside, exits, 0) + B.leaf_ptr[:-1]
        self.seen[leaf[inside]] = True
        got = self.leaf_id[leaf]
        # A number that names no leaf is kept as it is, to be read in the example.
        got = np.where(inside, got, exits)
        differs = (got != expected) | ~inside
        self.n_leaf_mismatches += int(differs.sum())
        self._keep("leaf", X, expected, got, differs)

    def _raw(self, X: Array, expected: Array) -> Bool[Array, " n"]:
        shape = (len(X), self.forest.n_outputs)
        expected = _shaped("the oracle's raw scores", expected, shape, "f")
        got = _shaped("the forest's raw scores", self.answers.raw(X), shape, "f")
        apart = _apart("raw scores", expected, got)
        self.raw_dtypes = (expected.dtype, got.dtype)
        differs = apart > 0
        self.n_raw_mismatches += int(differs.any(axis=1).sum())
        if differs.any():
            self.max_ulp = max(self.max_ulp, int(apart.max()))
            with np.errstate(invalid="ignore", over="ignore"):
                gap = np.abs(expected[differs].astype(np.float64) - got[differs].astype(np.float64))
            self.max_difference = max(
                self.max_difference, float(np.where(np.isnan(gap), np.inf, gap).max())
            )
            self._keep("raw", X, expected, got, differs)
        return np.logical_not(differs.any(axis=1))

    def _answers(self, X: Array, raw: Array) -> None:
        if not len(X):  # a library may ask for rows
            return
        oracle, output = self.oracle, self.forest.output

        def asked(answer: Answer) -> Array:
            return raw if answer is oracle.raw else np.asarray(answer(X))

        if oracle.scores is not None:
            self._scores(X, asked(oracle.scores), self.answers.scores(X))
        if oracle.predict is None:
            return
        expected = asked(oracle.predict)
        if output.classes is None:
            self._scores(X, expected, self.answers.predict(X))
        else:
            self._labels(X, expected, self.answers.predict(X))

    def _scores(self, X: Array, expected: Array, got: Array) -> None:
        shape = (len(X), self.forest.n_outputs)
        expected = _shaped("the oracle's predictions", expected, shape, "f")
        got = _shaped("the forest's predictions", got, shape, "f")
        apart = _apart("predictions", expected, got)
        if score_bound(self.forest, self.oracle):
            # A library may flush what underflows in an exponential.
            tiny = max(np.finfo(expected.dtype).tiny, np.finfo(got.dtype).tiny)
            apart = np.where((np.abs(expected) < tiny) & (np.abs(got) < tiny), np.uint64(0), apart)
        self.max_score_ulp = max(self.max_score_ulp, int(apart.max(initial=0)))
        self._keep("score", X, expected, got, apart > score_bound(self.forest, self.oracle))

    def _labels(self, X: Array, expected: Array, got: Array) -> None:
        shape = (len(X), len(self.forest.output.groups))
        expected = _shaped("the oracle's labels", expected, shape, "biufUO")
        got = _shaped("the forest's labels", got, shape, "biufUO")
        if {expected.dtype.kind, got.dtype.kind} & {"U", "O"}:  # a text equals no number
            expected, got = expected.astype(object), got.astype(object)
        differs: Array = np.not_equal(expected, got).astype(np.bool_)
        self.n_label_mismatches += int(differs.any(axis=1).sum())
        self._keep("label", X, expected, got, differs)

    def _keep(self, kind: str, X: Array, expected: Array, got: Array, differs: Array) -> None:
        space = EXAMPLES - sum(example.kind == kind for example in self.examples)
        for row, place in np.argwhere(differs)[: max(space, 0)]:
            self.examples.append(
                Difference(
                    kind,
                    int(place),
                    _plain(expected[row, place]),
                    _plain(got[row, place]),
                    tuple(float(x) for x in X[row]),
                )
            )


def score_bound(forest: Forest, oracle: Oracle) -> int:
    """Return by how many ulps predictions from equal raw scores may differ."""
    if forest.output.post_transform in links.EXACT:
        return 0
    return SCORE_ULPS if oracle.score_ulps is None else min(oracle.score_ulps, MOST_SCORE_ULPS)


def _plain(value: object) -> float | int | str:
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, (bool, int, float)) else str(plain)


def _apart(what: str, a: Array, b: Array) -> UInt64[Array, "n n_outputs"]:
    """Return ulps of the narrower dtype, in which both can be said to agree.

    A number that it cannot hold, so that it would become infinite or 0, is compared in float64.
    """
    narrow = min(a.dtype, b.dtype, key=lambda d: d.itemsize)
    if narrow not in (np.float32, np.float64):
        raise InputError(f"{what} must be float32 or float64, got {narrow}.")
    with np.errstate(over="ignore", under="ignore"):
        near_a, near_b = a.astype(narrow), b.astype(narrow)
    lost = _lost(a, near_a) | _lost(b, near_b)
    wide = ulps(a.astype(np.float64), b.astype(np.float64))
    return np.where(lost, wide, ulps(near_a, near_b))


def _lost(value: Array, near: Array) -> Bool[Array, "n n_outputs"]:
    return (np.isinf(near) & np.isfinite(value)) | ((near == 0) & (value != 0))


_HOLDS = {"f": "numbers", "iuf": "integers", "iu": "integers", "biufUO": "labels"}


def _shaped(what: str, value: Array, shape: tuple[int, int], kinds: str) -> Array:
    value = np.asarray(value)
    if value.shape == shape[:1] and shape[1] == 1:
        value = value[:, None]
    if value.shape != shape or value.dtype.kind not in kinds:
        raise InputError(
            f"{what} must have shape {shape} and hold {_HOLDS[kinds]}, got {value.dtype} of shape "
            f"{value.shape}."
        )
    return value
