"""Names of columns and categories go into an ONNX file and come back from it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")

import bitvec
from bitvec.converters.onnx.read import convert
from bitvec.converters.onnx.write import to_onnx
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.errors import FileFormatError, InvalidForestError

NAMES = ("city", "age")
BOOKS = (("Bern", "Lima", "Oslo"), None)


def stump(**inputs) -> Forest:
    forest = Forest.from_matrices(
        np.array([[1, 0]], np.float32), np.float32([0.5]), [[0], [1]], np.float32([[10], [20]])
    )
    return replace(forest, inputs=Inputs(2, **inputs))


def damaged(model, key: str, value: str):
    for entry in model.metadata_props:
        if entry.key == key:
            entry.value = value
    return model


@pytest.mark.parametrize("version", [5, 3])
@pytest.mark.parametrize(
    "inputs",
    [
        {"feature_names": NAMES, "categories": BOOKS},
        {"categories": (None, ("ü", 3, 2.5, True))},
        {"categories": (("Bern", 12345), None), "hashed": (0,)},
        {"categories": (("Bern", "3"), None), "decimals": (0, 1), "whole_numbers": (1,)},
        {"categories": (("Bern", "3"), None), "refuses_unseen": True},
        {"feature_names": NAMES},
        {},
    ],
    ids=str,
)
def test_names_and_categories_come_back(version, inputs):
    again = convert(to_onnx(stump(**inputs), version=version)).inputs
    assert again == Inputs(2, **inputs)
    kinds = [list(map(type, book or ())) for book in again.categories or ()]
    assert kinds == [list(map(type, book or ())) for book in inputs.get("categories", ())]


def test_numbers_of_numpy_are_written_as_the_numbers_that_they_are():
    books = ((3, np.float64(0.5), np.str_("a"), True), None)
    again = convert(to_onnx(stump(categories=books))).inputs
    assert again.categories == ((3, 0.5, "a", True), None)


def test_a_file_predicts_from_the_texts_of_its_categories(tmp_path):
    path = bitvec.export(stump(feature_names=NAMES, categories=BOOKS), tmp_path / "f.onnx")
    predictor = bitvec.compile(bitvec.convert(path))
    rows = {"city": ["Bern", "Lima", "Oslo"], "age": [1.0, 2.0, 3.0]}
    pandas = pytest.importorskip("pandas")
    assert predictor.predict(pandas.DataFrame(rows)).ravel().tolist() == [10, 20, 20]


@pytest.mark.parametrize("version", [5, 3])
@pytest.mark.parametrize(
    "stored",
    [
        "[", "3", "{}", '{"books": 3}', '{"books": [[[]], null]}', '{"books": [["a"]]}',
        '{"books": [["a"], null], "hashed": [7]}', '{"books": [["a"], null], "hashed": "x"}',
        '{"books": [[null], null], "hashed": []}', "[" * 100_000,
    ],
)  # fmt: skip
def test_damaged_categories_are_refused(version, stored):
    model = to_onnx(stump(categories=BOOKS), version=version)
    assert json.loads(
        next(p.value for p in model.metadata_props if p.key == "bitvec.categories.json")
    ) == {"books": [["Bern", "Lima", "Oslo"], None], "hashed": []}
    with pytest.raises((FileFormatError, InvalidForestError), match=r"categories|hashed"):
        convert(damaged(model, "bitvec.categories.json", stored))
