"""Models that others serialized, with the outputs that they stored, and texts to be refused."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

import bitvec
from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data
from bitvec.errors import BitvecError

ROWS = 500
Rows = Callable[[], np.ndarray]
BEFORE_V2 = ("binary_classification_LightGBM_model.txt", "root_model.txt")
"""Texts of a format that LightGBM itself no longer reads."""


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    yield from _xgboost(models / "treelite")
    yield _plain(
        models / "onnxmltools" / "test_xgb.onnx",
        "ONNX",
        ("TreeEnsembleRegressor v1", "exported by onnxmltools", "BRANCH_LT", "aggregate SUM"),
        lambda: load_iris().data.astype(np.float32),
    )
    yield from _lightgbm(data, models / "lightgbm")
    folder = models / "treelite"
    yield _plain(
        folder / "lightgbm_constant_tree" / "model_with_constant_tree.txt",
        "LightGBM",
        ("text file", "text file of versions 2 and 3", "gbdt", "binary", "constant trees"),
        lambda: data.mushroom().codes[:ROWS, :126],
    )
    yield _stored(
        folder / "toy_categorical" / "toy_categorical_model.txt",
        "LightGBM",
        ("text file", "text file of versions 2 and 3", "gbdt", "categories", "regression"),
        2,
        outputs=(".pred",),
    )
    yield _stored(
        folder / "sparse_categorical" / "sparse_categorical_model.txt.xz",
        "LightGBM",
        ("text file", "text file of versions 2 and 3", "gbdt", "categories", "binary"),
        5057,
        outputs=(".margin",),
    )


def refusals(models: Path) -> list[tuple[str, str]]:
    """Return the files that must be refused, each with the message that it is refused with.

    The message is empty where a file was converted.
    """
    found = []
    for name in BEFORE_V2:
        try:
            bitvec.convert(models / "lightgbm" / name)
        except BitvecError as error:
            found.append((name, str(error)))
        else:
            found.append((name, ""))
    return found


def _xgboost(folder: Path) -> Iterator[Case]:
    """Name xgboost models whose stored outputs treelite made of them, which sums as it does."""
    import treelite

    for name, n_features, objective, link, test in (
        ("mushroom", 127, "binary:logistic", "sigmoid", "agaricus.test"),
        ("dermatology", 33, "multi:softprob", "softmax", "dermatology.test"),
    ):
        path = folder / name / f"{name}.model"
        outputs = (".margin", ".prob")
        yield _stored(
            path,
            "xgboost",
            ("legacy binary file", "gbtree", objective),
            n_features,
            # xgboost adds the base score first, treelite last: of 60 trees the last bits differ.
            outputs=outputs if name == "mushroom" else (),
            test=test,
        )
        yield _stored(
            path,
            "treelite",
            ("Model", "imported from xgboost", "float32", link),
            n_features,
            outputs=outputs,
            test=test,
            load=treelite.frontend.load_xgboost_model_legacy_binary,
        )
    yield _stored(
        folder / "xgb_toy_categorical" / "xgb_toy_categorical_model.json",
        "xgboost",
        ("JSON file", "gbtree", "categories by partition", "reg:squarederror"),
        2,
        outputs=(".pred",),
    )


def _lightgbm(data: Data, folder: Path) -> Iterator[Case]:
    """Name texts without stored outputs, and rows like those that they were trained on."""

    def drawn(n_features: int) -> Rows:
        return lambda: np.random.default_rng(0).normal(size=(ROWS, n_features))

    def codes(n_features: int) -> Rows:
        return lambda: np.random.default_rng(0).integers(-1, 90, (ROWS, n_features)).astype(float)

    def cover() -> np.ndarray:
        X = data.covtype().codes[:ROWS]
        return np.column_stack([np.zeros(len(X)), X])

    for name, options, rows in (
        ("LightGBM_model_for_if_else_test.txt", ("regression", "missing NaN"), drawn(10)),
        ("cpp_tests_LightGBM_model.txt", ("binary", "categories"), _flights(data)),
        (
            "ctr_binary_model.txt",
            ("binary", "linear_tree", "text file of versions 2 and 3"),
            codes(30),
        ),
        ("experiments_LightGBM_model.txt", ("binary",), cover),
        ("model_test.txt", ("regression",), drawn(6)),
        ("test_model.txt", ("regression", "constant trees"), drawn(6)),
    ):
        yield _plain(folder / name, "LightGBM", ("text file", "gbdt", *options), rows)


def _flights(data: Data) -> Rows:
    return lambda: data.flights().codes[:ROWS]


def _plain(path: Path, format: str, options: tuple[str, ...], rows: Rows) -> Case:
    """A model without stored outputs."""
    name = f"{path.name}, trained by others"
    return Case(name, format, options, lambda folder: Made(path, rows()))


def _stored(
    path: Path,
    format: str,
    options: tuple[str, ...],
    n_features: int,
    *,
    outputs: tuple[str, ...],
    test: str = "",
    load: Callable[[Path], Any] = lambda path: path,
) -> Case:
    """A model with the rows of its test file, and the `outputs` that are stored beside these."""
    of = "with stored outputs" if outputs else "trained by others"

    def make(folder: Path) -> Made:
        file = path
        if path.suffix == ".xz":
            file = folder / path.stem
            file.write_bytes(lzma.decompress(path.read_bytes()))
        rows = path.with_name(test or path.name.partition("_model")[0] + ".test")
        X = _rows(rows, n_features)

        def stored(predictor: Any) -> tuple[np.ndarray, np.ndarray]:
            answers = {
                ".margin": predictor.raw,
                ".prob": predictor.scores,
                ".pred": predictor.raw,
            }
            got = [np.ravel(answers[suffix](X)) for suffix in outputs]
            wanted = [np.loadtxt(f"{rows}{suffix}", ndmin=1) for suffix in outputs]
            return np.concatenate(got), np.concatenate(wanted)

        return Made(load(file), X, stored=stored if outputs else None)

    return Case(f"{path.name}, {of}, {format}", format, options, make)


def _rows(path: Path, n_features: int) -> np.ndarray:
    """Read rows of `label column:value ...`; what a row does not name is missing."""
    lines = path.read_text().splitlines()
    X = np.full((len(lines), n_features), np.nan)
    for row, line in enumerate(lines):
        for pair in line.split()[1:]:
            column, value = pair.split(":")
            X[row, int(column)] = float(value)
    return X
