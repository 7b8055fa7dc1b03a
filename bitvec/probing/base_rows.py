"""Where the columns of a probing row come from that its node leaves open."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.node_tests import Kind
from bitvec.probing.code_runs import n_codes


class BaseRows:
    """Draws rows of X or, without X, values near each column's thresholds and among its codes.

    Without X the rows are 0 in all columns but those that the forest reads, in `read`.
    """

    def __init__(self, forest: Forest, X: Float[Array, "n n_features"] | None) -> None:
        self.X = X
        self.read: Array | None = None
        self.shape = forest.n_features, forest.dtype
        if self.X is not None:
            return
        tests, feature = forest.tests, forest.tests.feature
        ordered = (feature >= 0) & (tests.kind != Kind.SET) & np.isfinite(tests.b)
        order = np.lexsort((tests.b[ordered], feature[ordered]))
        self.b = tests.b[ordered][order]
        self.start = np.searchsorted(feature[ordered][order], np.arange(forest.n_features + 1))
        self.codes = np.zeros(forest.n_features, np.int64)
        sets = np.flatnonzero(tests.kind == Kind.SET)
        np.maximum.at(self.codes, feature[sets], n_codes(tests, sets))
        self.several = np.zeros(forest.n_features, bool)
        row_feature = np.repeat(feature, np.diff(tests.row_ptr[tests.node_ptr]))
        self.several[tests.column[row_feature < 0]] = True
        linear = forest.leaves.linear
        if linear is not None:
            bare = np.diff(self.start)[linear.column] == 0
            self.several[linear.column[bare]] = True
        self.read = np.union1d(tests.column, np.flatnonzero(self.several))
        if tests.indicator is not None:
            np.maximum.at(self.codes, tests.column, tests.indicator.astype(np.int64) + 2)

    def draw(self, n: int, rng: np.random.Generator) -> Float[Array, "n n_features"]:
        """Return n rows in the forest's dtype."""
        if self.X is not None:
            return self.X[rng.integers(len(self.X), size=n)]
        assert self.read is not None
        n_features, dtype = self.shape
        X = np.zeros((n, n_features), dtype)
        for j in self.read:
            first, last = int(self.start[j]), int(self.start[j + 1])
            if self.codes[j]:
                X[:, j] = rng.integers(self.codes[j], size=n)
            elif self.several[j]:
                X[:, j] = rng.standard_normal(n) * np.exp2(rng.integers(-2, 4, n))
            if last > first:
                i = rng.integers(first, last, n)
                between = self.b[i] / 2 + self.b[np.minimum(i + 1, last - 1)] / 2
                mixed = bool(self.codes[j]) or self.several[j]
                X[:, j] = np.where(rng.random(n) < 0.5, between, X[:, j]) if mixed else between
        return X
