"""Compiled headers as engines and as oracles: real models, transforms, labels, certificates."""

from __future__ import annotations

import itertools
import platform
import shutil
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import bitvec
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.errors import FileFormatError, InputError
from bitvec.runtime.export.c import compiled as compiling
from bitvec.runtime.export.c import to_c
from bitvec.runtime.export.c.compiled import CompiledHeader, MissingCompilerError, oracle_of
from bitvec.runtime.predict.engine import Engine

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in compiling.COMPILERS), reason="no C compiler"
)
BOTH = pytest.mark.parametrize("thresholds", ["exact", "ranks"])


@pytest.fixture
def stump():
    return Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])


def data(n_rows: int = 500, n_features: int = 8, n_classes: int = 3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    y = (X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=n_rows)) * n_classes / 3
    return X, y, np.clip(y.astype(int), 0, n_classes - 1)


def sklearn_classifier():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, _, label = data()
    model = ensemble.RandomForestClassifier(8, max_depth=5, random_state=0)
    return model.fit(X, label), X


def sklearn_regressor():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y, _ = data()
    return ensemble.RandomForestRegressor(8, max_depth=5, random_state=0).fit(X, y), X


def sklearn_boosting():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, _, label = data()
    X[::7, 2] = np.nan
    return ensemble.HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=12).fit(X, label), X


def xgboost_with_missing_values():
    xgboost = pytest.importorskip("xgboost")
    X, _, label = data()
    X[::5, 0] = X[::3, 4] = np.nan
    return xgboost.XGBClassifier(n_estimators=5, max_depth=4).fit(X, label), X


def lightgbm_with_categories():
    lightgbm = pytest.importorskip("lightgbm")
    X, _, label = data()
    X[:, 3] = np.random.default_rng(1).integers(0, 40, len(X))
    X[::9, 3] = np.nan
    label = (label + X[:, 3].astype(bool) * (np.nan_to_num(X[:, 3]) % 3)).astype(int) % 2
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=12, verbose=-1, random_state=0)
    return model.fit(X, label, categorical_feature=[3]), X


MODELS = (
    sklearn_classifier,
    sklearn_regressor,
    sklearn_boosting,
    xgboost_with_missing_values,
    lightgbm_with_categories,
)


@needs_compiler
@BOTH
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_real_models_are_certified(build, thresholds):
    model, X = build()
    forest = bitvec.convert(model)
    source = to_c(forest, thresholds=thresholds)
    certificate = bitvec.certify(forest, oracle_of(source, classes=forest.output.classes), X)
    assert certificate.passed, certificate.summary()


@needs_compiler
def test_an_unrolled_forest_is_certified():
    forest = bitvec.convert(sklearn_classifier()[0]).take([0, 1, 2])
    answers = oracle_of(to_c(forest, form="unrolled"), classes=forest.output.classes)
    assert bitvec.certify(forest, answers).passed


@needs_compiler
def test_a_wrong_header_is_not_certified(stump):
    source = to_c(stump)
    wrong = replace(source, text=source.text.replace("v > b", "v >= b"))
    assert wrong.text != source.text
    assert not bitvec.certify(stump, oracle_of(wrong)).passed


@needs_compiler
def test_a_compiled_header_is_an_engine(stump, tmp_path):
    path = to_c(stump, name="stump").save(tmp_path / "stump.h")
    engine = CompiledHeader(path)
    assert isinstance(engine, Engine)
    X = np.array([[0.5, 0.0], [0.75, 0.0], [np.nan, 0.0]])
    out = np.empty((3, 1))
    assert engine.raw(X, out) is out
    assert out.tolist() == engine.raw(X).tolist() == [[10.0], [20.0], [10.0]]
    exits = engine.exit_leaves(X)
    assert exits.dtype == np.int32
    assert np.array_equal(exits, reference.exit_leaves(stump, X))
    assert engine.raw(X[:0]).shape == (0, 1)
    with pytest.raises(InputError, match="shape"):
        engine.raw(X[:, :1])
    with pytest.raises(InputError, match="classifier"):
        engine.probabilities(X)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("softmax_sum", list(SoftmaxSum))
def test_predictions_are_the_transformed_raw_scores(dtype, softmax_sum):
    rng = np.random.default_rng(0)
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], rng.normal(size=(2, 3)))
    X = np.array([[-1.0], [1.0]])
    for transform in PostTransform:
        if softmax_sum is not SoftmaxSum.WIDE and "softmax" not in transform.value:
            continue
        leaves = np.abs(stump.v) % 1 if transform is PostTransform.PROBIT else stump.v
        output = Output(
            3,
            np.dtype(dtype),
            post_transform=transform,
            parameter=1.5,
            groups=(1, 2),
            softmax_sum=softmax_sum,
        )
        forest = replace(stump, leaves=Leaves(leaves.astype(dtype)), output=output)
        found = CompiledHeader(to_c(forest)).predict(X)
        expected = transforms.transform(output, reference.raw(forest, X))
        # exp, log and pow of two libraries: a few units in the last place; PROBIT, in float32 even
        # of float64 scores, subtracts numbers that are nearly equal.
        eps = np.finfo(dtype).eps if transform not in _IN_FLOAT32 else np.finfo(np.float32).eps
        few = 4000 if transform is PostTransform.PROBIT else 16
        np.testing.assert_allclose(found, expected, rtol=few * eps, err_msg=transform)
        assert found.dtype == dtype


_IN_FLOAT32 = (PostTransform.LOGISTIC, PostTransform.PROBIT)


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels_from_raw": True},
        {"labels_from_raw": True, "tie_to_second": True},
        {"boundary": 0.375},
    ],
    ids=str,
)
def test_labels_of_two_classes_follow_the_boundary(options):
    v = [-1.0, 0.0, 0.375, 0.5, 1.0]
    B = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]
    output = Output(1, np.dtype(np.float64), classes=(np.array(["no", "yes"]),), **options)
    forest = replace(Forest.from_matrices([[1.0]] * 4, [3, 2, 1, 0], B, v), output=output)
    X = np.array([[-1.0], [0.5], [1.5], [2.5], [3.5]])
    engine = CompiledHeader(to_c(forest))
    labels = output.classes[0][engine.predict(X)[:, 0]]
    assert labels.tolist() == transforms.predictions(output, reference.raw(forest, X)).tolist()
    assert np.array_equal(
        engine.probabilities(X), transforms.probabilities(output, reference.raw(forest, X))[0]
    )


@needs_compiler
def test_labels_from_whole_numbers_are_those_from_scores():
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(12, max_depth=6, random_state=0).fit(X, y)
    model.estimators_[6:] = model.estimators_[:6]
    forest = bitvec.convert(model)
    # Scores of the classes 2k and 2k + 1 are sums of the same numbers, in another order.
    v = forest.v.copy()
    v[len(v) // 2 :] = v[len(v) // 2 :, np.arange(10) ^ 1]
    rows = X[:400].astype(np.float32)
    kinds = itertools.product(((forest.v, 0.0), (v, 1.0)), ("share", "wholes"))
    for i, ((leaves, share), kept) in enumerate(kinds):
        case = replace(forest, leaves=Leaves(leaves * (1.0 if kept == "share" else 0.3)))
        source, raw = to_c(case, form="levels", finite=i > 1), reference.raw(case, rows)
        assert f"_leaf_{kept}[" in source.text
        first, second = np.sort(raw, axis=1)[:, :-3:-1].T
        assert np.mean(first - second < 1e-9) == share
        assert np.any(first > second)
        labels = CompiledHeader(source).predict(rows)[:, 0]
        assert np.array_equal(labels, transforms.predictions(case.output, raw))


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transform", [PostTransform.SIGMOID, PostTransform.SOFTMAX])
def test_labels_from_clear_scores_are_those_from_probabilities(transform, dtype):
    bounds = [0.0, 1e-3, 0.5, 30.0, 3e4, np.inf, np.nan]
    v = np.array([[s * a, b] for a in bounds for b in bounds for s in (1, -1)], dtype)
    v = v[:, :1] if transform is PostTransform.SIGMOID else v
    n, k = v.shape
    B = (np.arange(n)[:, None] > np.arange(n - 1)[None, ::-1]).astype(int)
    stairs = Forest.from_matrices(np.ones((n - 1, 1)), np.arange(n - 1.0)[::-1], B, np.zeros(n))
    classes = (np.arange(max(k, 2)),)
    output = Output(k, np.dtype(dtype), post_transform=transform, classes=classes)
    forest = replace(stairs, leaves=Leaves(v), output=output)
    X = np.arange(n)[:, None] - 0.5
    with np.errstate(all="ignore"):
        expected = transforms.predictions(output, reference.raw(forest, X))
    assert np.array_equal(CompiledHeader(to_c(forest)).predict(X)[:, 0], expected)


@needs_compiler
def test_several_targets_have_labels_and_probabilities():
    rng = np.random.default_rng(0)
    classes = (np.array([3, -7]), np.arange(5), np.array(["a", "ü"]))
    output = Output(8, np.dtype(np.float64), classes=classes, groups=(1, 5, 2))
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], rng.random((2, 8)))
    forest = replace(stump, output=output)
    X = np.array([[-1.0], [1.0]])
    engine = CompiledHeader(to_c(forest))
    parts = transforms.probabilities(output, reference.raw(forest, X))
    assert np.array_equal(engine.probabilities(X), np.concatenate(parts, axis=1))
    found = oracle_of(to_c(forest), classes=classes).predict(X)
    assert np.array_equal(found, transforms.predictions(output, reference.raw(forest, X)))


@needs_compiler
def test_labels_that_were_not_given_are_not_compared():
    forest = bitvec.convert(sklearn_classifier()[0]).take([0])
    other = oracle_of(to_c(forest))
    assert other.predict is None
    assert "labels" in other.notes[0]
    assert bitvec.certify(forest, other).passed


def test_a_missing_compiler_is_named(stump, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(MissingCompilerError, match="needs a C compiler, got none of cc, gcc"):
        CompiledHeader(to_c(stump))


@needs_compiler
def test_what_is_no_header_of_bitvecs_is_refused(stump, tmp_path):
    with pytest.raises(FileNotFoundError, match="got no file there"):
        CompiledHeader(tmp_path / "none.h")
    (tmp_path / "other.h").write_text("int x;")
    with pytest.raises(FileFormatError, match="one of bitvec's"):
        CompiledHeader(tmp_path / "other.h")
    broken = replace(to_c(stump), text=to_c(stump).text + "\nint x = ;\n")
    with pytest.raises(FileFormatError, match="error"):
        CompiledHeader(broken)


@needs_compiler
@pytest.mark.parametrize(
    "flags",
    [
        ("-ffast-math",),
        ("-Ofast",),
        ("-ffinite-math-only",),
        ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"),
        ("-mfpmath=387",),
        ("-fsingle-precision-constant",),
    ],
    ids=lambda flags: flags[0],
)
def test_other_arithmetic_is_refused_by_the_compiler(stump, flags):
    if shutil.which("gcc") is None or (
        "387" in flags[0] and platform.machine() not in ("x86_64", "AMD64")
    ):
        pytest.skip("no compiler with this flag")
    with pytest.raises(FileFormatError, match=r"this.header.needs"):
        CompiledHeader(to_c(stump), compiler="gcc", flags=("-std=c99", *flags))


@needs_compiler
def test_float_headers_do_not_ask_for_a_double_of_64_bits(stump):
    narrow = replace(
        stump,
        tests=replace(stump.tests, **{
            name: getattr(stump.tests, name).astype(np.float32)
            for name in ("b", "weight", "offset", "r")
        }),
        leaves=Leaves(stump.v.astype(np.float32)),
        output=Output(1, np.dtype(np.float32)),
    )  # fmt: skip
    assert "double" not in to_c(narrow).text.replace("sums in float and double", "")
    if shutil.which("gcc") is not None:
        flags = ("-std=c99", "-fsingle-precision-constant")
        CompiledHeader(to_c(narrow), compiler="gcc", flags=flags)
    assert "DBL_MANT_DIG" in to_c(stump).text


@needs_compiler
@pytest.mark.parametrize("name", ["bitvec", "batch", "n", "label", "exports", "for_each"])
def test_any_name_that_c_takes_can_be_certified(stump, name):
    assert bitvec.certify(stump, oracle_of(to_c(stump, name=name))).passed


@needs_compiler
def test_no_space_for_the_compiler_is_told_with_its_folder(stump, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiling.Path, "write_text", full)
    with pytest.raises(OSError, match=r"must be a file that can be written.*No space left"):
        CompiledHeader(to_c(stump))
