"""Rows of zeros: a test that every row of X answers alike, also where values are missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retraining import grown, oblique_classes
from strategies import forests, rows

from bitvec.core import reference
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.harden import harden  # noqa: E402
from bitvec.runtime.train.relax.module import SoftForest  # noqa: E402
from bitvec.runtime.train.retrain import zero_rows  # noqa: E402


@given(st.data(), st.integers(0, 2**16))
def test_a_row_of_zeros_hardens_to_a_constant_test(data, seed):
    forest = data.draw(
        forests(linear=False, aggregates=(Aggregate.SUM, Aggregate.MEAN), max_leaves=6).filter(
            lambda forest: forest.n_nodes and forest.kernel is None
        )
    )
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(forest, trainable=("S", "b"))
    if module.rows is None:
        return
    module.calibrate(X)
    rng = np.random.default_rng(seed)
    zero = rng.random(len(module.rows.nodes)) < 0.5
    with torch.no_grad():
        module.b.add_(torch.tensor(rng.normal(size=module.b.shape)))
        module.rows.S.masked_fill_(torch.tensor(zero)[module.rows.row_node][:, None], 0.0)
    hardened = harden(module)
    settled = zero_rows.settled(hardened)
    nodes = module.rows.nodes[zero]
    assert set(nodes) <= set(zero_rows.zero_nodes(settled.tests))
    h = reference.hard_tests(settled, reference.columns(settled, X))
    assert np.all(h[:, nodes] == h[:1, nodes])
    # Nothing else has changed, and finite values go where they went.
    others = np.setdiff1d(np.arange(forest.n_nodes), zero_rows.zero_nodes(settled.tests))
    before = reference.hard_tests(hardened, reference.columns(hardened, X))
    assert np.array_equal(h[:, others], before[:, others])
    finite = np.abs(np.where(np.isfinite(X), X, 0)).clip(1, 50).astype(X.dtype)
    sentinel = settled.inputs.missing_sentinel
    if sentinel is None or not 1 <= abs(sentinel) <= 50:
        for one in (hardened, settled):
            assert np.array_equal(
                reference.hard_tests(one, finite)[:, nodes], np.repeat(h[:1, nodes], len(X), axis=0)
            )


def test_a_forest_without_rows_of_zeros_is_itself():
    X, y = oblique_classes(50)
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    assert zero_rows.settled(forest) is forest
    assert np.all(forest.tests.kind == Kind.MARGIN)
