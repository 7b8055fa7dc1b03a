"""Laws of linear maps before trees: converted where rounding is allowed, certified outside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

import bitvec
from bitvec.errors import InputError, UnsupportedModelError


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) * [1, 100, 1e-3, 5, 1]
    return X, X[:, 0] + X[:, 3] > 0


STEPS: dict[str, tuple[Any, ...]] = {
    "first": (PCA(3),),
    "scaled, whitened, scaled": (StandardScaler(), PCA(4, whiten=True), MinMaxScaler()),
    "robust": (RobustScaler(), MaxAbsScaler(), TruncatedSVD(3)),
    "two": (MinMaxScaler(), IncrementalPCA(4), StandardScaler(with_std=False), PCA(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STEPS)
def test_a_map_is_certified_outside_rounding(name: str) -> None:
    X, y = rows()
    kind = (RandomForestClassifier, GradientBoostingClassifier)[len(name) % 2]
    trees = kind(n_estimators=4, max_depth=4, random_state=0)
    pipeline = make_pipeline(*STEPS[name], trees).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"mixes columns.*allow_rounding=True"):
        bitvec.convert(pipeline)
    forest = bitvec.convert(pipeline, allow_rounding=True)
    assert forest.n_features == 5
    certificate = bitvec.certify(forest, pipeline, X, progress=False)
    assert certificate.passed, certificate.summary()
    assert "another order" in certificate.summary()
    np.testing.assert_array_equal(bitvec.compile(forest).predict(X), pipeline.predict(X))
    with pytest.raises(InputError):
        bitvec.compile(forest).predict(np.where(X[0, 0] == X, np.nan, X))


def test_other_steps_before_a_map_and_float32_are_refused() -> None:
    X, y = rows()
    trees = RandomForestClassifier(2, random_state=0)
    with pytest.raises(UnsupportedModelError, match="scalers without clipping alone"):
        bitvec.convert(make_pipeline(Binarizer(), PCA(2), trees).fit(X, y), allow_rounding=True)
    pipeline = make_pipeline(PCA(2), trees).fit(X, y)
    with pytest.raises(InputError, match="float64 where rounding is allowed"):
        bitvec.convert(pipeline, allow_rounding=True, dtypes="float32")
