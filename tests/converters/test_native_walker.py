"""Laws of native trees as they are walked for proofs, apart from the conversion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_strategies import cpts, e2edfs, e2edts, kddt_forests, kddts, taos, trees_of
from proof_laws import assert_proved
from source_walks import leaf_ids
from strategies import rows

from bitvec.converters.native import convert, from_e2edt, from_kddt
from bitvec.converters.native.oracle import oracle_of
from bitvec.converters.native.walker import is_walked, source_trees
from bitvec.core.feature_maps import Layers, Linear
from bitvec.verify.certificates.proof import prove
from tests.models.native import small

SMALL = small()
EXAMPLES = settings(max_examples=25)
walked = st.one_of(
    cpts(),
    cpts(general=True),
    e2edts(),
    e2edts(general=True),
    e2edfs(),
    kddts(soft=False),
    kddt_forests(),
    taos(),
    taos(general=True),
).filter(is_walked)


@EXAMPLES
@given(st.data(), walked)
def test_walked_trees_leave_where_the_papers_recursion_leaves(data: Any, native: Any) -> None:
    X = data.draw(rows(convert(native), max_rows=12))
    exits = np.stack([tree.decide(X) for tree in trees_of(native)], axis=1)
    np.testing.assert_array_equal(leaf_ids(source_trees(native), X), exits)


@EXAMPLES
@given(walked)
def test_the_conversion_is_proved_by_the_walked_trees(native: Any) -> None:
    forest, trees = convert(native), source_trees(native)
    result = prove(forest, trees, missing=True, infinite=True)
    assert result.holds, result
    assert result.unstated == ()


@pytest.mark.parametrize("name", SMALL)
def test_a_tree_and_no_other_is_proved(name: str) -> None:
    assert_proved(convert(SMALL[name]), oracle_of(SMALL[name]))


def test_trees_that_decide_softly_or_behind_a_map_are_not_walked() -> None:
    sides: dict[str, Any] = {"left": [-1], "right": [-2]}
    soft = from_kddt([0], [1.0], V=[0, 8], n_features=1, h=0.5, **sides)
    phi = Layers((Linear(np.ones((1, 2))),))
    behind = from_e2edt([[1.0]], [0.0], phi=phi, mean=[0, 1], **sides)
    assert oracle_of(soft).trees is oracle_of(behind).trees is None
    crisp = from_kddt([0], [1.0], V=[0, 8], n_features=1, **sides)
    trees = oracle_of(crisp).trees
    assert trees is not None
    assert trees().tests.b.tolist() == [1.0]


@pytest.mark.parametrize("n", [0, 5000])
def test_a_chain_is_walked_without_recursion(n: int) -> None:
    left, right = np.arange(1, n + 1), ~np.arange(n)
    left[-1:] = ~n
    t, V = np.arange(n, 0, -1.0), np.arange(n + 1.0)
    tree = from_kddt(np.zeros(n, int), t, left=left, right=right, V=V, n_features=1)
    trees = source_trees(tree)
    assert trees.root.tolist() == [0 if n else -1]
    np.testing.assert_array_equal(trees.v[:, 0], V)
