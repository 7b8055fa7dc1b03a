"""Values of the columns of a probing row that its node leaves open."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.core.shape_annotations import Float
from bitvec.core.value_sets import n_codes

MOST_CODES = 1 << 12
"""Category codes of a column among which is drawn."""
SPREAD = 1 << 10
"""Values drawn around 0 for a column that tests weigh together with others."""
FOREIGN = 32
"""Values taken from the thresholds of all columns, at least: a test may read a wrong one."""
REDRAWN = 0.25
"""Share of the values of given rows that are drawn anew."""


class BaseRows:
    """Draws rows near the thresholds and among the codes of each column, and rows of X.

    Thresholds are those of the forest and of `others`, the tests of what it is compared with. On
    them, one ulp to each side, half-way between neighbours, on those of other columns, and NaN if
    `missing`; so a test that the forest lost, or reads from another column, meets both its sides.
    """

    def __init__(
        self,
        forest: Forest,
        X: Float[Array, "n n_features"] | None,
        *,
        others: NodeTests | None = None,
        missing: bool = True,
    ) -> None:
        self.X, self.dtype = X, forest.dtype
        sides = [forest.tests] if others is None else [forest.tests, others]
        rng = np.random.default_rng(0)
        several = _several(forest)
        codes, domains = _codes(forest, sides), forest.inputs.domains
        column, b = _thresholds(sides, self.dtype)
        start = np.searchsorted(column, np.arange(forest.n_features + 1))
        everywhere = np.unique(_near(np.unique(b)))
        self.drawn = np.flatnonzero(~several) if X is not None else np.arange(forest.n_features)
        self.pools = {}
        for j in self.drawn.tolist():
            own = b[start[j] : start[j + 1]]
            middles = own / 2 + np.append(own[1:], own[-1:]) / 2
            few = codes[j] <= MOST_CODES
            code = np.arange(codes[j]) if few else rng.integers(codes[j], size=MOST_CODES)
            if several[j]:
                spread = rng.standard_normal(SPREAD) * np.exp2(rng.integers(-2, 4, SPREAD))
                parts = [np.resize(code, SPREAD) if code.size else spread]
                parts += [np.resize(middles, max(SPREAD, own.size))] if own.size else []
            else:
                parts = [middles, _near(own), code, rng.standard_normal(FOREIGN)]
                size = sum(part.size for part in parts)
                if everywhere.size:
                    parts.append(rng.choice(everywhere, FOREIGN + size // 8))
                if missing:
                    parts.append(np.full(1 + size // 16, np.nan))
            pool = np.concatenate(parts).astype(self.dtype)
            self.pools[j] = pool if domains is None else _within(domains[j], pool)

    def draw(self, n: int, rng: np.random.Generator) -> Float[Array, "n n_features"]:
        """Return n rows in the forest's dtype."""
        if self.X is None:
            X = np.zeros((n, len(self.pools)), self.dtype)
            for j, pool in self.pools.items():
                X[:, j] = pool[rng.integers(pool.size, size=n)]
            return X
        X = self.X[rng.integers(len(self.X), size=n)]
        for j, pool in self.pools.items():
            anew = np.flatnonzero(rng.random(n) < REDRAWN)
            X[anew, j] = pool[rng.integers(pool.size, size=anew.size)]
        return X


def _within(domain: Domain, pool: Array) -> Array:
    """Return the values that a column may hold, with the ends of its domain."""
    ends = np.clip(np.ravel(domain.intervals), *np.finfo(pool.dtype).max * np.array([-1, 1]))
    kept = np.concatenate([pool, ends.astype(pool.dtype)])
    kept = kept[domain.holds(kept)]
    return kept if kept.size else np.full(1, np.nan, pool.dtype)


def _several(forest: Forest) -> Array:
    """Tell the columns that tests weigh together with others, or that leaves alone read."""
    tests = forest.tests
    several = np.zeros(forest.n_features, bool)
    row_feature = np.repeat(tests.feature, np.diff(tests.row_ptr[tests.node_ptr]))
    several[tests.column[row_feature < 0]] = True
    linear = forest.leaves.linear
    if linear is not None:
        tested = np.zeros(forest.n_features, bool)
        tested[tests.column] = True
        several[linear.column[~tested[linear.column]]] = True
    return several


def _codes(forest: Forest, sides: list[NodeTests]) -> Array:
    """Return how many codes of each column are drawn: those of its sets, indicators and book."""
    codes = np.zeros(forest.n_features, np.int64)
    for tests in sides:
        sets = np.flatnonzero(tests.kind == Kind.SET)
        np.maximum.at(codes, tests.feature[sets], n_codes(tests, sets))
        if tests.indicator is not None:
            np.maximum.at(codes, tests.column, tests.indicator.astype(np.int64) + 2)
    for j, book in enumerate(forest.inputs.categories or ()):
        codes[j] = max(codes[j], 0 if book is None else len(book) + 1)
    return codes


def _thresholds(sides: list[NodeTests], dtype: np.dtype) -> tuple[Array, Array]:
    """Return (column, threshold) of all tests of one column, distinct and rising."""
    columns, thresholds = [], []
    for tests in sides:
        feature = tests.feature
        ordered = (feature >= 0) & (tests.kind != Kind.SET) & np.isfinite(tests.b)
        columns.append(feature[ordered])
        with np.errstate(over="ignore"):
            thresholds.append(tests.b[ordered].astype(dtype))
    column, b = np.concatenate(columns), np.concatenate(thresholds)
    order = np.lexsort((b, column))
    column, b = column[order], b[order]
    first = np.ones(b.size, bool)
    first[1:] = (column[1:] != column[:-1]) | (b[1:] != b[:-1])
    first &= np.isfinite(b)
    return column[first], b[first]


def _near(b: Array) -> Array:
    """Return values and their neighbours, as far as these are finite."""
    with np.errstate(over="ignore"):
        near = np.concatenate([b, *(np.nextafter(b, b.dtype.type(to)) for to in (-np.inf, np.inf))])
    return near[np.isfinite(near)]
