"""Games of coalitions: what all orders make of worths is what all subsets make."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from bitvec.explanations import coalition_games


def _worths(coalitions, table):
    """Return what a table has for coalitions, by their bits."""
    return table[coalitions @ (1 << np.arange(coalitions.shape[1]))]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["values", "interactions"])
def test_all_orders_make_what_all_subsets_make(k, kind):
    table = np.random.default_rng(k).normal(size=(1 << k, 2))
    every = np.array(list(permutations(range(k))))
    coalitions, estimates = getattr(coalition_games, f"order_{kind}")(every)
    found = estimates(_worths(coalitions, table))
    assert found.shape == (len(every), *[k] * (2 if kind == "interactions" else 1), 2)
    coalitions, exact = getattr(coalition_games, f"subset_{kind}")(k)
    wanted = exact(_worths(coalitions, table))
    np.testing.assert_allclose(found.mean(axis=0), wanted[0], rtol=0, atol=1e-14)


def test_each_order_shares_out_the_worth_of_all_columns():
    table = np.random.default_rng(0).normal(size=(1 << 6, 1))
    order = coalition_games.random_orders(6, 3, seed=1)
    values, pairs = (
        estimates(_worths(coalitions, table))
        for coalitions, estimates in (
            coalition_games.order_values(order), coalition_games.order_interactions(order),
        )
    )  # fmt: skip
    np.testing.assert_allclose(pairs.sum(axis=2), values, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(pairs, np.swapaxes(pairs, 1, 2))
    np.testing.assert_allclose(values.sum(axis=1), table[-1:] - table[0] + 0 * values[:, 0])
