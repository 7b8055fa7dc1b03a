"""Reports: one page of any forest, with its rows, whatever columns and labels are called."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

import bitvec
from bitvec.cli.program import program
from bitvec.cli.report_scores import score
from bitvec.core.forest import Forest

SECTIONS = ["Model", "Certificate", "Columns", "Explanation", "Speed and size", "Exports", "Trees"]
HOSTILE = ("<script>alert(1)</script>", "$x$ & y", "'onload=")
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """The headings and texts of a page, whose elements must all be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.headings: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.headings if self.open[-1:] == ["h2"] else self.texts).append(data)


def run(*arguments: object) -> None:
    found = CliRunner().invoke(program, ["report", *map(str, arguments)])
    assert found.exit_code == 0, found.output


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of a LightGBM classifier of columns with hostile names."""
    lightgbm, pd = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    pytest.importorskip("polars")
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[::9, 1] = np.nan
    y = (X[:, 0] + 0.3 * rng.normal(size=400) > 0).astype(int)
    options = {"objective": "binary", "num_leaves": 7, "verbose": -1}
    model = lightgbm.train(options, lightgbm.Dataset(X, y), 10)
    forest = bitvec.convert(model)
    named = replace(forest, inputs=replace(forest.inputs, feature_names=HOSTILE))
    bitvec.save(named, folder / "forest.safetensors")
    model.save_model(folder / "model.txt")
    frame = pd.DataFrame({**dict(zip(HOSTILE, X.T, strict=True)), "y": y})
    frame.to_csv(folder / "rows.csv", index=False)
    rows = ("--data", folder / "rows.csv", "--target", "y")
    run(folder / "forest.safetensors", *rows, "-o", folder / "report.html")
    return folder, forest, X, y


def test_a_page_has_all_parts_and_runs_no_script(written):
    folder, forest, X, y = written
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.headings == [*SECTIONS[:2], "Scores", *SECTIONS[2:]]
    assert not page.tags & {"script", "link", "iframe", "object"}
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert text.count("data:image/png;base64,") == 2
    assert HOSTILE[0] in page.texts
    accuracy = np.mean(bitvec.compile(forest).predict(X) == y)
    assert f"{100 * accuracy:.1f} %" in page.texts


def test_a_model_is_certified_and_needs_no_rows(written):
    folder = written[0]
    run(folder / "model.txt", "-o", folder / "model.html")
    text = (folder / "model.html").read_text(encoding="utf-8")
    assert Page(text).headings == SECTIONS
    assert "PASSED, proved" in text
    assert text.count("data:image/png;base64,") == 1


def test_what_cannot_be_explained_is_said(tmp_path):
    oblique = Forest.from_matrices([[1, 1]], [0.5], [[0], [1]], [10, 20])
    bitvec.save(oblique, tmp_path / "oblique.safetensors")
    run(tmp_path / "oblique.safetensors", "-o", tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "img" not in page.tags
    assert any("nodes that read one column" in text for text in page.texts)
    np.savetxt(tmp_path / "rows.csv", np.random.default_rng(0).random((30, 2)), delimiter=",")
    rows = ("--data", tmp_path / "rows.csv", "--no-header")
    run(tmp_path / "oblique.safetensors", *rows, "-o", tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert any(text == "Shapley values of 30 rows" for text in page.texts)


def test_scores_are_those_of_their_definition():
    forest = Forest.from_matrices([[1.0, 0]], [0.5], [[0], [1]], [10, 20])
    X = np.stack([np.linspace(0, 1, 100), np.zeros(100)], axis=1)
    y = np.where(X[:, 0] > 0.7, 20.0, 10.0)
    found = score(bitvec.compile(forest), X, y)
    error = bitvec.compile(forest).predict(X) - y
    assert dict(found.overall)["root mean squared error"] == f"{np.sqrt(np.mean(error**2)):.6g}"
    name, share, worst = found.slices[1][0]
    assert share == "25.0 %"
    here = (X[:, 0] >= np.percentile(X[:, 0], 50)) & (X[:, 0] < np.percentile(X[:, 0], 75))
    assert "x0" in name
    assert worst == f"{np.sqrt(np.mean(error[here] ** 2)):.6g}"


def test_calibration_counts_each_row_once():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    model = ensemble.RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, y)
    predictor = bitvec.compile(bitvec.convert(model))
    found = score(predictor, X, y)
    rows = found.calibration[1]
    assert sum(int(row[1]) for row in rows) == 300
    right = sum(int(row[1]) * float(row[3]) for row in rows) / 300
    assert abs(right - np.mean(predictor.predict(X) == y)) < 1e-3  # three digits each
    unknown = score(predictor, X, np.where(y == "yes", "new", y))
    assert unknown.calibration is None
    assert any("does not know" in name for name, _ in unknown.overall)


def test_a_target_needs_rows(written):
    model = str(written[0] / "model.txt")
    found = CliRunner().invoke(program, ["report", model, "--target", "y", "-o", "report.html"])
    assert found.exit_code == 2
    assert "--target must come with --data" in found.output


def test_a_browser_opens_the_page(written):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if browser is None:
        pytest.skip("chromium is not installed")
    page = written[0] / "report.html"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom")
    done = subprocess.run(
        [browser, *options, page.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert Page(done.stdout).headings == [*SECTIONS[:2], "Scores", *SECTIONS[2:]]
