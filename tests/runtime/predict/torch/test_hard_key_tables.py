"""Laws of key tables in torch: the hard module gives the reference's bits for any key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import bitvec  # noqa: E402
from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables  # noqa: E402
from bitvec.core.feature_maps.key_tables import Part  # noqa: E402
from bitvec.core.forest import Forest  # noqa: E402
from bitvec.core.inputs import Inputs  # noqa: E402

MULTIPLIER = 0x4906BA494954CB65


def table(seed: int, n_keys: int) -> KeyTable:
    """Return a table of a whole number, a comparison and an equality, whose keys rows may have."""
    rng = np.random.default_rng(seed)
    kind = np.array([Part.WHOLE, Part.GREATER, Part.EQUAL], np.uint8)
    b, passes = np.array([0.0, 0.5, 2.0]), np.array([False, seed % 2 == 0, False])
    n = max(1, n_keys)
    empty = KeyTable(
        np.array([0, 1, 2], np.int32),
        kind,
        b,
        passes,
        np.zeros(0, np.uint64),
        np.zeros((0, 2), np.float32),
        rng.normal(size=2).astype(np.float32),
    )
    X = np.stack([rng.integers(-5, 5, 4 * n), rng.normal(size=4 * n), np.full(4 * n, 2.0)], axis=1)
    key = np.unique(empty.keys(X.astype(np.float64), MULTIPLIER)[0])[:n_keys]
    return replace(empty, key=key, value=rng.normal(size=(key.size, 2)).astype(np.float32))


def looked_up(n_keys: int) -> Forest:
    """Return a stump of each looked-up column, which stand behind the three of X."""
    feature_map = Concatenate(
        (Identity(3), KeyTables(3, (table(0, n_keys), table(1, n_keys)), MULTIPLIER))
    )
    S = np.zeros((3, 7))
    S[[0, 1, 2], [3, 6, 1]] = 1
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    tree = Forest.from_matrices(S, [0.1, -0.2, 0.3], B, [1.0, 2.0, 3.0, 4.0])
    return replace(tree, inputs=Inputs(3), feature_map=feature_map)


@pytest.mark.parametrize("n_keys", [0, 1, 20])
def test_any_row_is_looked_up_as_by_the_reference(n_keys: int) -> None:
    forest, rng = looked_up(n_keys), np.random.default_rng(2)
    X = rng.normal(size=(500, 3))
    X[:, 0] = rng.choice([-5, -1, 0, 3, 4, 7, 0.5, 2.0**31, -(2.0**31), np.nan, np.inf], 500)
    X[:, 1] = rng.choice([0.5, np.nextafter(0.5, 1), np.nan, -np.inf, 3], 500)
    X[:, 2] = rng.choice([2.0, np.nextafter(2, 3), np.nan], 500)
    reference = bitvec.compile(forest, engine="reference")
    module = bitvec.to_torch(forest)
    rows = torch.tensor(X)
    np.testing.assert_array_equal(module(rows).numpy(), reference.raw(X))
    np.testing.assert_array_equal(module.leaves(rows).numpy(), reference.exit_leaves(X))
    exported = torch.export.export(module, (rows,))
    np.testing.assert_array_equal(exported.module()(rows).numpy(), reference.raw(X))


@pytest.mark.parametrize("at", range(3))
def test_models_of_catboost_answer_as_the_engine(at: int) -> None:
    pytest.importorskip("catboost")
    from tests.models.catboost import CTR_MODELS, train, with_categories

    data = with_categories()
    name = [*CTR_MODELS][at * len(CTR_MODELS) // 3]
    forest = bitvec.convert(train(CTR_MODELS[name], data))
    predictor = bitvec.compile(forest)
    rows = predictor.rows(data.X)
    module = bitvec.to_torch(forest)
    np.testing.assert_array_equal(module(torch.tensor(rows)).numpy(), predictor.raw(data.X))


@pytest.mark.full
def test_an_exported_program_is_certified(tmp_path: Path) -> None:
    forest = looked_up(20)
    path = bitvec.export(forest, tmp_path / "tables.pt2")
    certificate = bitvec.certify(forest, path, progress=False, allow_values_only=True)
    assert certificate.passed, certificate.summary()
