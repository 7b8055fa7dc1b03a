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
    return bitvec.learners.E2EDTClassifier(max_depth=2, steps=20, refine=0, random_state=0)


def batches(*made):
    return DataLoader(list(made), batch_size=None)


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
    with pytest.raises(InputError, match="at least one row, got 0 batches"):
        model().fit(loader(X[:0], y[:0]))
    with pytest.raises(InputError, match="at least one row, got 1 batches"):
        model().fit(batches((X[:0], y[:0])))
    with pytest.raises(InputError, match="rows of one shape"):
        model().fit(batches((np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 4)), np.zeros(2))))
    with pytest.raises(InputError, match="y of one shape"):
        model().fit(batches((X, y), (X, y[:, None])))
    with pytest.raises(InputError, match="got them with 1 of 2"):
        model().fit(batches((X, y), (X, y, np.ones(len(X)))))


def test_each_batch_has_labels_and_weights_for_its_rows():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    # As many labels as rows in all, but those of the first batch would go to rows of the second.
    with pytest.raises(InputError, match=r"got batch 0 of 60, 50: let each row have its own"):
        model().fit(batches((X[:60], y[:50]), (X[60:], y[50:])))
    w = np.ones(100)
    with pytest.raises(InputError, match="got batch 1 of 40, 40, 50"):
        model().fit(batches((X[:60], y[:60], w[:60]), (X[60:], y[60:], w[50:])))


def test_an_empty_batch_among_others_is_nothing():
    X, y = load_iris(return_X_y=True)
    loaded = model().fit(batches((X[:60], y[:60]), (X[:0], y[:0]), (X[60:], y[60:])))
    np.testing.assert_array_equal(loaded.predict_proba(X), model().fit(X, y).predict_proba(X))


def test_tensors_of_any_floats_are_read_and_what_is_no_array_is_refused():
    X, y = load_iris(return_X_y=True)
    half = torch.as_tensor(X).to(torch.bfloat16)
    loaded = model().fit(batches((half, y)))
    alone = model().fit(half.float().numpy(), y)
    np.testing.assert_array_equal(loaded.predict_proba(X), alone.predict_proba(X))
    with pytest.raises(InputError, match="dense tensors or arrays, got Tensor"):
        model().fit(batches((torch.as_tensor(X).to_sparse(), y)))
    with pytest.raises(InputError, match="dense tensors or arrays, got list"):
        model().fit(batches(([[1.0, 2.0], [3.0]], y[:2])))
