"""What the page shows of one row in Chromium is what `predict` and `exit_leaves` answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bitvec

pytest.importorskip("onnx")
tensor = pytest.importorskip("bitvec.runtime.export.onnx.tensor")

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[4]


def test_typed_values_are_predicted_and_their_path_is_shown(browser, iris):
    X, _, forest = iris
    browser.page(forest, title="Iris")
    row = X.iloc[77].to_numpy(np.float32)
    steps = [["fill", f"#feature-{at}", str(value)] for at, value in enumerate(row)]
    steps += [
        ["text", "label", "#answer .prediction"],
        ["texts", "shares", "#answer .number"],
        ["text", "title", "h1"],
        ["text", "problem", "#problem"],
    ]
    for tree in range(forest.n_trees):
        steps += [["fill", "#tree", str(tree)], ["texts", f"tree {tree}", "#steps li"]]
        steps += [["texts", f"on {tree}", "svg .on .name"]]
    read = browser.drive([*steps, ["picture", str(browser.folder / "iris.png"), True]])
    predictor = bitvec.compile(forest)
    assert read["title"] == "Iris"
    assert read["label"] == predictor.predict(row[None])[0]
    assert read["shares"] == [f"{share:.4f}" for share in predictor.predict_proba(row[None])[0]]
    assert read["problem"] == ""
    leaves = predictor.exit_leaves(row[None])[0]
    for tree, leaf in enumerate(leaves):
        *tests, last = read[f"tree {tree}"]
        assert last.startswith(f"leaf {leaf}: ")
        assert read[f"on {tree}"][-1] == f"leaf {leaf}"
        assert len(tests) == len(read[f"on {tree}"]) - 1
    assert (browser.folder / "iris.png").stat().st_size > 10_000


def test_trees_of_another_forest_are_told(browser, iris):
    X, model, forest = iris
    other = bitvec.convert(model.set_params(random_state=1).fit(X, np.arange(150) // 50))
    other = replace(other, output=forest.output)
    browser.page(forest, tensor.to_onnx(other, leaves=True))
    read = browser.drive([["text", "problem", "#problem"]])
    assert "disagree on the exit leaf" in read["problem"]


def test_the_snippet_of_the_docs_makes_a_page(browser, monkeypatch):
    text = (ROOT / "docs" / "browser.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(browser.folder)
    Path("node_modules").symlink_to(browser.node_modules, target_is_directory=True)
    exec(compile(code, "browser.md", "exec"), {})
    read = browser.drive([["text", "title", "h1"], ["text", "label", ".prediction"]])
    assert read == {"title": "Iris flowers", "label": "versicolor"}


def test_a_field_that_holds_no_number_is_marked(browser, iris):
    _, _, forest = iris
    browser.page(forest)
    read = browser.drive(
        [
            ["fill", "#feature-1", "1,5"],
            ["text", "told", "#feature-1-complaint"],
            ["text", "answer", "#answer"],
            ["fill", "#feature-1", "inf"],
            ["text", "again", "#feature-1-complaint"],
        ]
    )
    assert read == {
        "told": "Enter a number, or tick missing.",
        "answer": "Some fields hold no number.",
        "again": "",
    }
