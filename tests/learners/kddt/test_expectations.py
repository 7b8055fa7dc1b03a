"""The answers that score bandwidths are those of the converted tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kddt_samples import samples

import bitvec
from bitvec.learners.kddt.events import densities_of, events_of
from bitvec.learners.kddt.expectations import expectations
from bitvec.learners.kddt.tree import Limits, grow_tree, native


@given(samples(densities=("constant", "by location")), st.booleans())
@settings(max_examples=20)
def test_answers_are_those_of_the_converted_tree(sample, soft):
    tree = grow_tree(
        sample.densities,
        events_of(sample.densities),
        sample.targets,
        sample.weight,
        Limits(min_weight=0.5),
    )
    kernels = sample.kernels
    n_features = sample.X.shape[1]
    own = native(tree, n_features, kernel=kernels if soft else None)
    X = np.concatenate([sample.X, sample.X[::-1] + 0.0625])
    narrow = [type(k)(k.edges, k.mass, 0 * k.bandwidth, k.location) for k in kernels]
    found = expectations(tree, densities_of(X, kernels if soft else narrow))
    expected = bitvec.compile(bitvec.convert(own)).raw(X)
    # Products of weights are taken in another order.
    scale = 1 + np.abs(own.V).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * scale)
