"""Laws of functions that rise but for their last bits: every float near a turn is told as asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

for library in ("scipy", "sklearn"):
    pytest.importorskip(library)

import sklearn  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    PowerTransformer,
    QuantileTransformer,
)

import bitvec  # noqa: E402
from bitvec.converters.pipelines import wavering  # noqa: E402
from bitvec.converters.pipelines.wavering import Wavering  # noqa: E402
from bitvec.core.float_keys import floats, key_of, keys  # noqa: E402
from bitvec.core.key_intervals import Values  # noqa: E402
from bitvec.errors import UnsupportedModelError  # noqa: E402

DOUBLE = np.dtype(np.float64)
TOP = key_of(np.inf, DOUBLE)
SPAN = 400
"""Floats on each side of a turn that are asked."""


def fitted(step: Any, X: np.ndarray, *before: Any) -> Any:
    y = (X[:, 0] > np.median(X[:, 0])) ^ (X[:, 1] > np.median(X[:, 1]))
    trees = RandomForestClassifier(4, max_depth=7, random_state=0)
    return make_pipeline(*before, step, trees).fit(X, y)


def skewed(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.gamma(2, 20, 400), rng.normal(size=400), rng.exponential(1e-3, 400)], 1)


STEPS: dict[str, tuple[Any, ...]] = {
    "yeo-johnson": (PowerTransformer(),),
    "yeo-johnson, as it is": (PowerTransformer(standardize=False),),
    "quantiles": (QuantileTransformer(n_quantiles=50),),
    "quantiles, normal": (QuantileTransformer(n_quantiles=50, output_distribution="normal"),),
    "log1p": (FunctionTransformer(np.log1p), SimpleImputer()),
    "cbrt": (FunctionTransformer(np.cbrt), SimpleImputer()),
    "expm1": (FunctionTransformer(np.expm1), SimpleImputer()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STEPS)
def test_floats_around_each_turn_are_answered_as_by_the_pipeline(name: str) -> None:
    if name.startswith("yeo-johnson") and tuple(map(int, sklearn.__version__.split(".")[:2])) < (
        1,
        9,
    ):
        pytest.skip(f"this scikit-learn computes {name} by a formula that is refused")
    X = abs(skewed()) if name == "log1p" else skewed() / (10 if name == "expm1" else 1)
    pipeline = fitted(STEPS[name][0], X, *STEPS[name][1:])
    forest = bitvec.convert(pipeline)
    tests, rng = forest.tests, np.random.default_rng(1)
    rows = []
    for column in range(3):
        b = np.unique(tests.b[(tests.feature == column) & np.isfinite(tests.b)])
        near = (keys(b)[:, None] + np.arange(-SPAN, SPAN + 1)).ravel()
        part = X[rng.integers(len(X), size=near.size)]
        part[:, column] = floats(near, DOUBLE)
        rows.append(part)
    every = np.concatenate(rows)
    every = every[forest.inputs.takes(every)]
    assert len(every) > 5000
    raw = bitvec.compile(forest).raw(every)
    np.testing.assert_array_equal(raw, pipeline.predict_proba(every))
    certificate = bitvec.certify(forest, pipeline, X, progress=False)
    assert certificate.passed, certificate.summary()
    assert forest.source is not None
    assert forest.source.metadata["numpy"] == np.__version__
    assert f"exact for NumPy {np.__version__}" in certificate.summary()


def test_preimages_are_what_every_float_of_a_window_says() -> None:
    """A function whose last bits jump about within its stated error."""

    def jumping(x: np.ndarray) -> np.ndarray:
        noise = (keys(x) * 2654435761 >> 7) % 7 - 3
        return np.where(np.isnan(x), np.nan, floats(keys(np.asarray(x)) + noise, DOUBLE))

    own = Wavering("jumping", jumping, lambda y: 4 * np.spacing(np.abs(y)))
    for t in (1.0, -3.5, 1e-300, 7e200):
        key = key_of(t, DOUBLE)
        wanted = [Values(((key, TOP),), False), Values(((key, key + 5),), True)]
        window = floats(np.arange(key - 200, key + 200), DOUBLE)
        for values, found in zip(wanted, own.preimages(wanted), strict=True):
            np.testing.assert_array_equal(found.holds(window), values.holds(jumping(window)))
            assert found.nan == values.nan
    ((_, top),) = own.preimages([Values(((-TOP, TOP),), False)])[0].intervals
    assert top == TOP


def test_turns_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = fitted(PowerTransformer("box-cox"), abs(skewed()))
    monkeypatch.setattr(wavering, "MOST_ASKED", 1)
    with pytest.raises(UnsupportedModelError, match=r"too flat.*more than 1"):
        bitvec.convert(pipeline)


def test_powers_of_an_older_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = fitted(PowerTransformer(), skewed())
    monkeypatch.setattr(sklearn, "__version__", "1.8.0")
    with pytest.raises(UnsupportedModelError, match=r"before 1\.9 takes 1 from"):
        bitvec.convert(pipeline)


@pytest.mark.parametrize(
    ("step", "before", "dtype", "words"),
    [
        (PowerTransformer(), (), "float32", "must compute in float64"),
        (QuantileTransformer(n_quantiles=9), (), "float32", "must compute in float64"),
        (FunctionTransformer(np.log1p), (), "float64", "such as a SimpleImputer"),
        (FunctionTransformer(np.tanh), (SimpleImputer(),), "float64", "other than NumPy's log1p"),
        (FunctionTransformer(np.sin), (SimpleImputer(),), "float64", "arithmetic is not known"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_exact_is_refused(
    step: Any, before: tuple[Any, ...], dtype: str, words: str
) -> None:
    X = abs(skewed()).astype(dtype)
    with pytest.raises(UnsupportedModelError, match=words):
        bitvec.convert(fitted(step, X, *before), dtypes=dtype)
