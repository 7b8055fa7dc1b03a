"""Laws of treelite's walker: its trees lead rows to the leaves that GTIL names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from proof_laws import assert_proved, assert_proved_alone
from walker_laws import assert_walks_to_the_leaves_of, catalogue, rows_about, summed

treelite = pytest.importorskip("treelite")

from proof_laws import some_in_full  # noqa: E402

from bitvec.converters.treelite.oracle import oracle_of  # noqa: E402
from bitvec.converters.treelite.read import convert  # noqa: E402
from tests.models.treelite import OPERATORS, build, imported, stump  # noqa: E402

DRAWN = catalogue("test_treelite")


@pytest.mark.parametrize(("library", "name"), some_in_full(DRAWN.FROM, one_in=2))
def test_imported_models_are_proved_and_lead_to_gtils_leaves(library: str, name: str) -> None:
    pytest.importorskip(library)
    model = imported(library, name)
    answers = oracle_of(model)
    assert_walks_to_the_leaves_of(answers, 30)
    assert_proved(convert(model), answers)


@settings(max_examples=15)
@given(model=DRAWN.models())
def test_built_models_of_every_layout_are_proved_and_give_gtils_sums(model: treelite.Model) -> None:
    answers = oracle_of(model)
    trees = assert_walks_to_the_leaves_of(answers, 40)
    X = rows_about(trees, 40, seed=1)
    n_outputs = answers.n_outputs
    assert n_outputs is not None
    raw = answers.raw(X)
    np.testing.assert_array_equal(summed(trees, X, n_outputs).astype(raw.dtype), raw)
    assert_proved_alone(convert(model), answers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinite_and_subnormal_numbers_are_kept(dtype: str) -> None:
    tiny = float(np.nextafter(np.dtype(dtype).type(0), np.dtype(dtype).type(1)))
    stumps = [stump(threshold=np.inf), stump(left=tiny, right=0.1, threshold=tiny)]
    trees = assert_walks_to_the_leaves_of(oracle_of(build(stumps, dtype=dtype)), 60)
    np.testing.assert_array_equal(trees.tests.b, np.array([np.inf, tiny], dtype))
    np.testing.assert_array_equal(trees.v[2:, 0], np.array([tiny, 0.1], dtype))


@pytest.mark.parametrize("right_child", [False, True])
@pytest.mark.parametrize("opname", OPERATORS)
def test_no_other_forest_is_proved(opname: str, right_child: bool) -> None:
    lists = {"category_list": [1, 40], "category_list_right_child": right_child}
    stumps = [stump(opname=opname), stump(3.0, 4.0, **lists)]
    model = build(stumps, num_class=(2,), class_id=[0, 1], task="kMultiClf")
    assert_proved(convert(model), oracle_of(model))
