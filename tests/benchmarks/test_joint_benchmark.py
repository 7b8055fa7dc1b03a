"""Forests behind encoders, on a small table of categories with learned embeddings."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import bitvec

torch = pytest.importorskip("torch")

from benchmarks import joint  # noqa: E402

CODES = [-1, 6, -1, 20]
"""Codes of each column, -1 of numbers."""


def table(n: int = 1000) -> joint.Rows:
    """Rows whose class a category and a number decide; some codes are unknown."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, len(CODES)))
    X[:, 1], X[:, 3] = rng.integers(0, 7, n), rng.integers(0, 21, n)
    y = (np.cos(X[:, 3]) * 2 + X[:, 0] > 0).astype(int)
    parts = torch.randperm(n, generator=torch.Generator().manual_seed(0)).split([600, 150, 250])
    return joint.Rows(torch.tensor(X, dtype=torch.float32), torch.tensor(y), *parts)


@pytest.mark.full
def test_a_forest_is_trained_with_embeddings_of_categories_and_exported_with_them(monkeypatch):
    monkeypatch.setattr(joint, "load", lambda *_: (table(), CODES))
    (row,) = joint.measure(("adult", 0), Namespace(data=None, quick=True))
    assert row["exported"]
    assert min(row["tree_joint"], row["forest_joint"]) > 0.6


def test_gradients_reach_the_embeddings_and_the_hard_forest_is_certified_on_their_features():
    rows = table()
    torch.manual_seed(0)
    encoder = joint.encoder(rows.x, CODES).eval()
    Z = joint.answers(encoder, rows.x[rows.train]).numpy()
    tree = DecisionTreeClassifier(max_leaf_nodes=8, random_state=0).fit(Z, rows.y[rows.train])
    network = joint._soft(encoder, bitvec.convert(tree), Z).eval()
    joint.log_loss(network(rows.x), torch.nn.functional.one_hot(rows.y).float()).backward()
    for embedding in network[0][0].tables:
        assert embedding.weight.grad.any(dim=1).all()  # of each code, the unknown one too
    forest = joint.harden_(network)["1"]
    features = joint.answers(network[0], rows.x).numpy()
    assert bitvec.certify(forest, network[1].hard, features, progress=False).passed
