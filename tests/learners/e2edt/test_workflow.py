"""The workflow of grown trees: fit, convert, certify, compile, save, export; always the same.

CPT, E2EDT and E2EDF, with linear nodes, polytopes and networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torch import nn

import bitvec
from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.cpt.sklearn import CPTClassifier, CPTRegressor
from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTRegressor
from bitvec.learners.e2edt.sklearn_forests import E2EDFClassifier, E2EDFRegressor
from bitvec.verify.certificates.digest import forest_digest
from bitvec.verify.certificates.near_ties import near_ties

QUICK: dict[str, Any] = {
    "max_depth": 2, "steps": 6, "restarts": 1, "refine": 6, "random_state": 0
}  # fmt: skip
DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS, LABELS = DIGITS[:160], LABELS[:160]
LARGE = np.kron(DIGITS.reshape(-1, 8, 8), np.ones((2, 2))).reshape(160, 256)
FEW = DIGITS[:, [2, 10, 19, 21, 28, 34, 36, 42, 43, 53]]
NAMES = np.array([f"digit {number}" for number in range(10)])[LABELS]
VALUES = np.stack([DIGITS[:, 20] * LABELS, DIGITS[:, 42] - LABELS], axis=1)


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1), nn.Conv2d(2, 3, 2, stride=2, bias=False),
        nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 5), nn.ReLU(),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], Any], Array, Array]] = {
    "CPT": (lambda: CPTClassifier(**QUICK, n_facets=3), FEW, NAMES),
    "CPT values": (lambda: CPTRegressor(**QUICK, n_facets=3), FEW, VALUES),
    "E2EDT": (lambda: E2EDTClassifier(**QUICK), FEW, NAMES),
    "E2EDT mlp": (lambda: E2EDTClassifier(**QUICK, split="mlp", hidden=7), DIGITS, LABELS),
    "E2EDT cnn": (
        lambda: E2EDTClassifier(**QUICK, split="cnn", image_shape=(16, 16)), LARGE, NAMES
    ),
    "E2EDT module": (lambda: E2EDTClassifier(**QUICK, split=small_cnn), DIGITS, NAMES),
    "E2EDT values": (lambda: E2EDTRegressor(**QUICK), FEW, VALUES),
    "E2EDT mlp values": (
        lambda: E2EDTRegressor(**QUICK, split="mlp", hidden=7), DIGITS, VALUES[:, 0]
    ),
    "E2EDF": (
        lambda: E2EDFClassifier(**QUICK, n_estimators=2, max_features=9, joint=4), DIGITS, NAMES
    ),
    "E2EDF patch": (
        lambda: E2EDFClassifier(
            **QUICK, n_estimators=2, max_features=None, patch_shape=(4, 3), image_shape=(8, 8)
        ), DIGITS, LABELS,
    ),
    "E2EDF mlp": (
        lambda: E2EDFClassifier(**QUICK, n_estimators=2, split="mlp", hidden=4, joint=4),
        DIGITS, NAMES,
    ),
    "E2EDF values": (lambda: E2EDFRegressor(**QUICK, n_estimators=2), DIGITS, VALUES),
}  # fmt: skip
NETWORKS = [name for name in MODELS if "mlp" in name or "cnn" in name or "module" in name]
EXACT = [name for name in MODELS if name not in NETWORKS]
SLOWER = ("CPT values", "E2EDT values", "E2EDT mlp values", "E2EDF", "E2EDF patch")


def among(names: Iterable[str]) -> Any:
    """Run a test for each of some models, for those of kinds that others show only in full."""
    return pytest.mark.parametrize(
        "name",
        [pytest.param(n, marks=pytest.mark.full) if n in SLOWER else n for n in names],
    )


each_model = among(MODELS)
each_network = among(NETWORKS)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model, the rows it was fitted to, its native tree or forest, and its converted forest."""

    model: Any
    X: Array

    @property
    def native(self) -> Any:
        return self.model.native_ if hasattr(self.model, "native_") else self.model.tree_

    @property
    def forest(self) -> Any:
        return self.model.forest_


@cache
def fitted(name: str) -> Fitted:
    make, X, y = MODELS[name]
    return Fitted(make().fit(X, y), X)


def rows(X: Array, seed: int = 0) -> Array:
    """Rows that no tree has seen."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(80, X.shape[1]))
    return np.concatenate([X[:40] + 2 * noise[:40], 20 * noise[40:]])


@each_model
def test_the_converted_forest_is_certified(name: str) -> None:
    one = fitted(name)
    certificate = bitvec.certify(one.forest, one.native, one.X)
    assert certificate.passed, certificate.summary()
    assert certificate.exact
    assert certificate.n_nodes >= 2


@each_model
def test_the_engine_answers_what_the_estimator_and_the_equation_answer(name: str) -> None:
    one = fitted(name)
    engine = bitvec.compile(one.forest)
    for X in (one.X, rows(one.X)):
        raw = reference.raw(one.forest, X)
        assert np.array_equal(engine.engine.raw(X), raw)
        assert np.array_equal(one.native.raw(X), raw)
        assert np.array_equal(engine.predict(X), one.model.predict(X))
        assert np.array_equal(engine.apply(X), one.model.apply(X))
        if hasattr(one.model, "predict_proba"):
            assert np.array_equal(engine.predict_proba(X), one.model.predict_proba(X))
            assert np.array_equal(one.native.predict(X), one.model.predict(X))
        else:
            assert np.array_equal(engine.predict(X), one.native.predict(X))
    assert np.array_equal(engine.predict(one.X[:1]), one.model.predict(one.X)[:1])


@each_model
def test_what_comes_back_from_its_file_is_the_forest(name: str, tmp_path: Path) -> None:
    one = fitted(name)
    path = tmp_path / "forest.safetensors"
    bitvec.save(one.forest, path)
    again = bitvec.load(path)
    assert forest_digest(again) == forest_digest(one.forest)
    X = rows(one.X)
    assert np.array_equal(bitvec.compile(again).engine.raw(X), reference.raw(one.forest, X))


def exported(name: str, tmp_path: Path, **options: Any) -> Path:
    return bitvec.export(fitted(name).forest, tmp_path / "model.onnx", **options)


@each_model
def test_the_onnx_file_is_certified_and_answers_alike(name: str, tmp_path: Path) -> None:
    one = fitted(name)
    path = exported(name, tmp_path, leaves=True)
    certificate = bitvec.certify(one.forest, path, one.X, allow_values_only=True)
    assert certificate.passed, certificate.summary()
    assert "leaf ids" in certificate.parts
    engine = OnnxEngine(path)
    answer = "label" if hasattr(one.model, "classes_") else "prediction"
    for X in (one.X, rows(one.X), one.X[:1]):
        assert not near_ties(one.forest, X).any()
        assert np.array_equal(engine.exit_leaves(X), one.model.apply(X))
        assert np.array_equal(engine.raw(X), reference.raw(one.forest, X))
        assert np.array_equal(engine.run(answer, X).squeeze(), one.model.predict(X).squeeze())
    assert engine.raw(X[:0]).shape == (0, one.forest.n_outputs)


@among(EXACT)
def test_linear_nodes_and_polytopes_are_exported_in_the_form_that_holds_them(
    name: str, tmp_path: Path
) -> None:
    metadata = OnnxEngine(exported(name, tmp_path)).metadata
    assert metadata["bitvec.form"] == "tensor"
    assert metadata["bitvec.adds"] == "exactly"
    assert "tree_ensemble" in metadata["bitvec.instead_of"]


@each_network
def test_networks_are_exported_as_products_that_round_in_their_own_order(
    name: str, tmp_path: Path
) -> None:
    one = fitted(name)
    path = exported(name, tmp_path)
    metadata = OnnxEngine(path).metadata
    assert metadata["bitvec.form"] == "mapped"
    assert metadata["bitvec.adds"] == "within rounding"
    certificate = bitvec.certify(one.forest, path, one.X[:40], allow_values_only=True)
    assert certificate.n_raw_mismatches == 0
    assert not certificate.exact
    assert any("in another order" in note for note in certificate.exclusions)


@each_network
def test_rows_without_a_value_go_the_same_way(name: str, tmp_path: Path) -> None:
    one = fitted(name)
    X = one.X[:40].copy()
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.01] = np.nan
    X[30:][rng.random(X[30:].shape) < 0.01] = np.inf
    assert np.isnan(X).any(axis=1).sum() > 10
    engine = OnnxEngine(exported(name, tmp_path))
    assert np.array_equal(engine.raw(X), reference.raw(one.forest, X))
    assert np.array_equal(engine.raw(X[:1]), reference.raw(one.forest, X[:1]))


@pytest.mark.parametrize("name", ["E2EDT", "E2EDT mlp", "E2EDT cnn"])
def test_a_file_that_reads_float32_answers_rows_of_float32(name: str, tmp_path: Path) -> None:
    one = fitted(name)
    narrow = rows(one.X).astype(np.float32)
    engine = OnnxEngine(exported(name, tmp_path, input_dtype=np.float32))
    assert engine.input_dtype == np.float32
    assert np.array_equal(engine.raw(narrow), reference.raw(one.forest, narrow))


@each_network
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "openvino"}, "without a form, a target"),
        ({"form": "tree_ensemble"}, "without a form, a target"),
        ({"version": 3}, "without a form, a target"),
    ],
)
def test_networks_have_one_form(
    name: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        exported(name, tmp_path, **options)


@among(["CPT", *NETWORKS])
def test_what_c_cannot_hold_is_refused(name: str, tmp_path: Path) -> None:
    message = "polytope nodes" if name == "CPT" else "got a feature map"
    with pytest.raises(UnsupportedModelError, match=message):
        bitvec.export(fitted(name).forest, tmp_path / "model.h")


@each_model
def test_other_columns_and_missing_values_are_refused(name: str, tmp_path: Path) -> None:
    one = fitted(name)
    d = one.X.shape[1]
    with pytest.raises(ValueError, match=f"expecting {d} features"):
        one.model.predict(one.X[:, 1:])
    with pytest.raises(InputError, match=f"{d} "):
        bitvec.compile(one.forest).predict(one.X[:, 1:])
    with pytest.raises(InputError, match=f"\\(batch, {d}\\)"):
        OnnxEngine(exported(name, tmp_path)).raw(one.X[:, 1:])
    holes = one.X.copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        one.model.predict(holes)
    with pytest.raises(ValueError, match="NaN"):
        one.model.fit(holes, np.arange(len(holes)) % 2)
