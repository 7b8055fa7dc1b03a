"""Laws of compositions in torch: averages of hard forests have the bits of the source."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    BaggingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)

import bitvec  # noqa: E402
from bitvec.errors import InputError, UnsupportedModelError  # noqa: E402

X = np.random.default_rng(0).normal(size=(200, 4))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
SMALL = {"n_estimators": 3, "max_depth": 4}
FORESTS = [(str(seed), RandomForestClassifier(**SMALL, random_state=seed)) for seed in range(3)]
NUMBERS = [
    ("forest", RandomForestRegressor(**SMALL)),
    ("histogram", HistGradientBoostingRegressor(max_iter=3)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        VotingClassifier(FORESTS, voting="soft"),
        VotingClassifier(FORESTS, voting="soft", weights=[1, 2, 0.7]),
        VotingRegressor(NUMBERS, weights=[0.3, 1]),
        BaggingClassifier(RandomForestClassifier(**SMALL), 3, max_features=0.5, random_state=0),
    ],
    ids=["voting", "weighted", "regressor", "bagging"],
)
def test_averages_have_the_bits_of_the_source(model: object) -> None:
    classifies = hasattr(model.fit(X, Y), "predict_proba")
    expected = model.predict_proba(X) if classifies else model.predict(X)
    module = bitvec.to_torch(bitvec.convert(model))
    rows = torch.tensor(X).to(module.dtype)
    np.testing.assert_array_equal(module(rows).numpy(), expected)


def test_curves_rows_of_another_dtype_and_options_are_refused() -> None:
    model = VotingClassifier(FORESTS, voting="soft").fit(X, Y)
    composition = bitvec.convert(model)
    with pytest.raises(InputError, match="rows must be"):
        bitvec.to_torch(composition)(torch.zeros((1, 4), dtype=torch.float16))
    with pytest.raises(InputError, match=r"composition\.forests"):
        bitvec.to_torch(composition, "sigmoid")
    calibrated = CalibratedClassifierCV(RandomForestClassifier(**SMALL), cv=2).fit(X, Y)
    with pytest.raises(UnsupportedModelError, match="curves of calibration"):
        bitvec.to_torch(bitvec.convert(calibrated))
