"""A torch DataLoader of rows is as good as the rows."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.datasets import load_iris  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import bitvec  # noqa: E402
from bitvec.errors import InputError  # noqa: E402


def model():
    return bitvec.E2EDTClassifier(max_depth=2, steps=20, refine=0, random_state=0)


def loader(*parts, **how):
    return DataLoader(TensorDataset(*map(torch.as_tensor, parts)), batch_size=32, **how)


def test_a_loader_fits_what_its_rows_fit():
    X, y = load_iris(return_X_y=True)
    weight = np.arange(len(X)) % 3 + 1.0
    alone = model().fit(X, y, weight)
    loaded = model().fit(loader(X, y, weight))
    np.testing.assert_array_equal(loaded.predict_proba(X), alone.predict_proba(X))


def test_images_are_flattened():
    X, y = load_iris(return_X_y=True)
    loaded = model().fit(loader(X.reshape(-1, 1, 2, 2), y))
    np.testing.assert_array_equal(loaded.predict_proba(X), model().fit(X, y).predict_proba(X))


def test_what_a_loader_must_yield():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="must be left out with a loader"):
        model().fit(loader(X, y), y)
    with pytest.raises(InputError, match=r"must yield \(X, y\) or \(X, y, sample_weight\), got"):
        model().fit(DataLoader(torch.as_tensor(X), batch_size=32))
    with pytest.raises(InputError, match="at least one batch"):
        model().fit(loader(X[:0], y[:0]))
    rows = [(np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 4)), np.zeros(2))]
    with pytest.raises(InputError, match="rows of one shape"):
        model().fit(DataLoader(rows, batch_size=None))
