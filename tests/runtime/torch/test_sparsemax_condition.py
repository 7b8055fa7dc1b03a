"""When the index-sensitive sparsemax is one-hot: Eq. (9) of Zhang 2021."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bitvectors

from bitvec import matrices, reference

torch = pytest.importorskip("torch")
EPSILON = 0.5


@settings(max_examples=60)
@given(bitvectors(max_trees=1, max_leaves=40), st.integers(0, 2**32 - 1))
def test_it_is_the_exit_leaf_up_to_temperature_eps_over_leaves_and_no_further(B, seed):
    from bitvec.runtime.torch.sparsemax import sparsemax

    h = np.random.default_rng(seed).random((16, B.n_nodes)) < 0.5
    scores = matrices.scores(B, h)
    penalty = EPSILON / B.n_leaves
    biased = scores - penalty * np.arange(B.n_leaves)

    def project(temperature: float) -> np.ndarray:
        score = torch.from_numpy(biased.T[None] / temperature)  # (1, n_leaves, batch)
        return sparsemax(score)[0].numpy().T

    exits = reference.exit_leaf_bitvector(B, h)[:, 0]
    one_hot = np.eye(B.n_leaves)[exits]
    # The gap of two neighbouring penalties is penalty / T >= 1 up to float64 rounding.
    assert np.allclose(project(penalty), one_hot, rtol=0, atol=1e-12)
    assert np.array_equal(project(penalty / 2), one_hot)
    if B.n_leaves == 1:
        return
    ties = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1
    neighbours = ties & (np.sort(biased, axis=1)[:, -2:] @ [-1, 1] < 1.5 * penalty)
    beyond = project(2 * penalty)
    assert np.all(beyond[neighbours].max(axis=1) < 1), "warmer, tied neighbours share the mass"
