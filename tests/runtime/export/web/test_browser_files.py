"""What the page predicts of files in Chromium is what `predict` answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.core import matrices, reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.runtime.export.web.facts import start_values

pytest.importorskip("onnx")
datasets = pytest.importorskip("sklearn.datasets")
ensemble = pytest.importorskip("sklearn.ensemble")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.full

HOSTILE = "<img src=x onerror=alert(1)>"


def largest_ulps(found: np.ndarray, expected: np.ndarray) -> int:
    """Return the largest distance of two arrays of positive float32 numbers, in ulps."""
    pair = [np.asarray(a, np.float32).view(np.int32).astype(np.int64) for a in (found, expected)]
    return int(np.abs(pair[0] - pair[1]).max())


def test_rows_of_a_file_are_predicted_as_by_predict(browser, iris):
    X, _, forest = iris
    browser.page(forest)
    extra = X.iloc[:, ::-1].assign(note="passed over")
    extra.to_csv(browser.folder / "rows.csv", index=False)
    header, cells = browser.predict(browser.folder / "rows.csv")
    predictor = bitvec.compile(forest)
    assert header == ["label", *(f"probabilities_{name}" for name in forest.output.classes[0])]
    assert np.array_equal(cells[:, 0], predictor.predict(X))
    assert np.array_equal(cells[:, 1:].astype(np.float64), predictor.predict_proba(X))


def test_missing_values_of_xgboost_are_predicted_as_by_predict(browser):
    xgboost = pytest.importorskip("xgboost")
    writer = pytest.importorskip("bitvec.converters.onnx.write")
    data = datasets.load_breast_cancer(as_frame=True)
    X = data.data.mask(np.random.default_rng(0).random(data.data.shape) < 0.2)
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=5).fit(X, data.target)
    forest = bitvec.convert(model)
    browser.page(forest, writer.to_onnx(forest, leaves=True))
    X.to_csv(browser.folder / "rows.csv", index=False)
    _, cells = browser.predict(browser.folder / "rows.csv")
    predictor = bitvec.compile(forest)
    assert np.array_equal(cells[:, 0].astype(np.int64), predictor.predict(X))
    # 1 / (1 + exp(-x)) of an exponential of onnxruntime's own: natively it is 2 ulps off as well.
    assert largest_ulps(cells[:, 2].astype(np.float32), predictor.predict_proba(X)[:, 1]) <= 2

    steps = [["check", "#feature-27-missing"], ["text", "problem", "#problem"]]
    read = browser.drive(
        [*steps, ["evaluate", "off", "document.querySelector('#feature-27').disabled"]]
    )
    assert read == {"problem": "", "off": True}


def colours() -> tuple[Any, Any]:
    """A table with categories of texts and of numbers, some with markup, and what to learn."""
    rng = np.random.default_rng(0)
    n = 1000
    table = pd.DataFrame(
        {
            HOSTILE: pd.Categorical(rng.choice(["red", "green", HOSTILE, 'a "b", c'], n)),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "month": pd.Categorical(rng.integers(1, 13, n)),
        }
    )
    goal = (table[HOSTILE] == "red") + table["size"].fillna(0) * (table["month"].astype(int) > 6)
    return table, goal


def test_categories_of_lightgbm_are_read_by_their_texts(browser):
    lightgbm = pytest.importorskip("lightgbm")
    table, goal = colours()
    names = ["a", "size", "month"]
    model = lightgbm.LGBMRegressor(n_estimators=30, num_leaves=15, verbose=-1, min_child_samples=5)
    forest = bitvec.convert(model.fit(table.set_axis(names, axis=1), goal))
    inputs = replace(forest.inputs, feature_names=tuple(table.columns))
    forest = replace(forest, inputs=inputs)
    browser.page(forest, title=HOSTILE, tree=2)
    table.to_csv(browser.folder / "rows.csv", index=False)
    header, cells = browser.predict(browser.folder / "rows.csv")
    assert header == ["prediction"]
    assert np.array_equal(cells[:, 0].astype(np.float64), bitvec.compile(forest).predict(table))

    steps: list[list[Any]] = []
    for value in ("0", "-1", "missing"):
        steps += [["select", "#feature-0", value], ["texts", value, "#steps li"]]
    steps += [
        ["texts", "labels", "#feature-0 option"],
        ["evaluate", "images", "document.images.length"],
        ["text", "problem", "#problem"],
        ["text", "title", "h1"],
    ]
    read = browser.drive(steps)
    books = forest.inputs.categories
    assert books is not None
    assert read["labels"] == [*books[0], "another category", "missing"]
    assert (read["problem"], read["images"], read["title"]) == ("", 0, HOSTILE)
    row = [0.0, float(start_values(forest)[1]), 0.0]
    for value in ("0", "-1", "missing"):
        row[0] = np.nan if value == "missing" else float(value)
        leaf = reference.exit_leaves(forest, np.array([row]))[0, 2]
        assert read[value][-1].startswith(f"leaf {leaf}: ")


def test_several_groups_and_outputs_are_told_apart(browser, iris):
    X, model, _ = iris
    target = np.c_[np.arange(150) // 50, np.arange(150) % 2]
    two = bitvec.convert(model.set_params(n_estimators=5).fit(X, target))
    X.to_csv(browser.folder / "rows.csv", index=False)
    browser.page(two)
    header, cells = browser.predict(browser.folder / "rows.csv")
    predictor = bitvec.compile(two)
    assert header[:3] == ["label_0", "label_1", "probabilities_0_0"]
    assert np.array_equal(cells[:, :2].astype(np.float64).astype(np.int64), predictor.predict(X))
    shares = np.concatenate(predictor.predict_proba(X), axis=1)
    assert np.array_equal(cells[:, 2:].astype(np.float64), shares)

    values = ensemble.ExtraTreesRegressor(5, random_state=0).fit(X, target / 7)
    browser.page(bitvec.convert(values))
    header, cells = browser.predict(browser.folder / "rows.csv")
    assert header == ["prediction_0", "prediction_1"]
    expected = bitvec.compile(bitvec.convert(values)).predict(X)
    assert np.array_equal(cells.astype(np.float64), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_forest_without_names_reads_by_position(browser, dtype):
    b = np.array([0.1, 0.1, -1e-40, np.inf, 1e300 if dtype is np.float64 else 3e38], dtype)
    B = matrices.from_dense(1 - np.eye(6, 5, dtype=np.int8))
    tests = axis_aligned([0, 1, 0, 1, 1], b, relation=np.array([0, 1, 0, 1, 1], np.uint8))
    v = np.arange(6, dtype=np.float64)[:, None] / 7
    forest = Forest(tests, B, Leaves(v), Output(1, np.dtype(np.float64)), Inputs(2))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40]
    values = np.concatenate([b, np.nextafter(b, dtype(np.inf)), np.array(special, dtype)])
    X = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    browser.page(forest)
    for header in ("first,second\n", ""):
        lines = "".join(f"{p!r},{q!r}\n" for p, q in X.tolist())
        (browser.folder / "rows.csv").write_text(header + lines)
        _, cells = browser.predict(browser.folder / "rows.csv")
        assert np.array_equal(cells.astype(np.float64), bitvec.compile(forest).predict(X)[:, None])


COMPLAINTS = {
    "a,b\n1,2\n": 'missing: "sepal length (cm)"',
    "": "must hold rows, got none",
    "{header}\n": "must hold rows, got none",
    "{header}\n1,2,3,4\n1,x2,3,4\n": 'Row 2 (line 3), column "sepal width (cm)": "x2" is not a n',
    "{header}\n1,2,3\n": "Row 1 (line 2) must have 4 cells",
    "{header}\n\n1,2,3,4\n": "Line 2 is blank",
    "{header},{header}\n1,2,3,4,1,2,3,4\n": "must be distinct",
    '{header}\n1,2,3,"4\n': "never closed",
    "{semicolons}\n1;2;3;4\n": "separated by commas",
    "{header}\n1,2,3,\0\n": "null character",
    "{header}\n1,2,3,\xff\n": "must be text in UTF-8",
}
"""What the page says of files that it cannot read."""


def test_a_file_that_cannot_be_read_says_where(browser, iris):
    X, _, forest = iris
    browser.page(forest)
    header = ",".join(X.columns)
    steps: list[list[Any]] = []
    for at, text in enumerate(COMPLAINTS):
        path = browser.folder / f"rows{at}.csv"
        filled = text.format(header=header, semicolons=header.replace(",", ";"))
        path.write_bytes(filled.encode("latin-1"))
        steps += [
            ["file", "#file", str(path)],
            ["wait", "#file-problems p"],
            ["text", str(at), "#file-problems"],
            ["evaluate", f"hidden {at}", "document.querySelector('#download').hidden"],
        ]
    good = browser.folder / "good.csv"
    good.write_text(f"\ufeff{header}\r\n" + '1,"2",3e0,4\r\n , ,NA,inf\r\n'.replace(" ", ""))
    steps += [
        ["drop", "#drop", str(good)],
        ["wait", "#download:not([hidden])"],
        ["text", "problems", "#file-problems"],
        ["texts", "rows", "#results tbody th"],
    ]
    read = browser.drive(steps)
    for at, message in enumerate(COMPLAINTS.values()):
        assert message in read[str(at)]
        assert read[f"hidden {at}"]
    assert read["problems"] == ""
    assert read["rows"] == ["1", "2"]


def test_many_rows_are_predicted_while_the_page_answers(browser, iris):
    X, _, forest = iris
    browser.page(forest)
    many = pd.concat([X] * 400, ignore_index=True)
    many.to_csv(browser.folder / "rows.csv", index=False)
    watch = """
        window.pauses = [performance.now()];
        setInterval(() => window.pauses.push(performance.now()), 5)"""
    worst = "Math.max(...window.pauses.slice(1).map((t, i) => t - window.pauses[i]))"
    target = browser.folder / "predictions.csv"
    read = browser.drive(
        [
            ["evaluate", "watching", watch],
            ["file", "#file", str(browser.folder / "rows.csv")],
            ["fill", "#feature-0", "4.5"],
            ["wait", "#download:not([hidden])"],
            ["evaluate", "worst", worst],
            ["download", "#download", str(target)],
            ["text", "caption", "#results caption"],
            ["click", "#results tbody tr:nth-child(3) button"],
            [
                "evaluate",
                "form",
                "[0,1,2,3].map((i) => document.querySelector('#feature-' + i).value)",
            ],
        ],
        colours="dark",
        width=420,
    )
    labels = [line.split(",")[0] for line in target.read_text().splitlines()[1:]]
    assert labels == bitvec.compile(forest).predict(many).tolist()
    assert read["worst"] < 2000  # milliseconds; a busy machine pauses by itself
    assert read["caption"] == "The first 100 of 60000 rows"
    assert read["form"] == [str(value) for value in X.iloc[2]]
