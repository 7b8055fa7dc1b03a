"""onnxruntime-web under node answers as the reference does, where sets meet missing values too."""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("onnx")

import bitvec
from bitvec.cli.program import program
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InputError
from bitvec.runtime.export.onnx_files import page_model
from bitvec.runtime.export.web import wasm


def trained(library: str, n_codes: int) -> Forest:
    """Return a regressor of one column of categories with missing values, and one of numbers."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(n_codes)
    n, codes = 3000, rng.integers(0, n_codes, 3000)
    table = pd.DataFrame({"c": pd.Categorical(codes), "x": rng.normal(size=n)})
    table.loc[rng.random(n) < 0.1, "c"] = np.nan
    y = rng.normal(size=n_codes + 1)[table["c"].cat.codes] + table["x"]
    module = pytest.importorskip(library)
    if library == "lightgbm":
        few = {"cat_smooth": 1, "min_data_per_group": 2, "max_cat_to_onehot": 2, "verbose": -1}
        model = module.LGBMRegressor(n_estimators=10, min_child_samples=2, **few)
    else:
        model = module.XGBRegressor(n_estimators=10, enable_categorical=True, max_cat_to_onehot=2)
    return bitvec.convert(model.fit(table, y))


def rows_of(forest: Forest, n_codes: int) -> np.ndarray:
    """Return codes of all kinds, beside thresholds and their neighbours."""
    tests = forest.tests
    b = tests.b[tests.feature == 1][:3]
    x = np.concatenate([b, np.nextafter(b, b.dtype.type(np.inf)), [np.nan]])
    odd = [0.5, -0.5, 30.5, 2.0**24, 2.0**31, 3e9, -3e9, np.inf, -np.inf, np.nan]
    c = np.concatenate([np.arange(-2, n_codes + 3), odd])
    return np.stack(np.meshgrid(c, x), axis=-1).reshape(-1, 2).astype(forest.dtype)


ALWAYS = ("lightgbm", 40)
CASES = [
    pytest.param(*case, marks=() if case == ALWAYS else pytest.mark.full)
    for case in itertools.product(
        ["lightgbm", "xgboost"], [1, 2, 30, 31, 32, 33, 40, 64, 300, 1000]
    )
]


@pytest.mark.parametrize(("library", "n_codes"), CASES)
def test_leaves_and_raw_scores_are_the_references(node, onnxruntime_web, library, n_codes):
    forest = trained(library, n_codes)
    X = rows_of(forest, n_codes)
    model = page_model(forest)
    assert any(node.op_type == "TreeEnsemble" for node in model.graph.node)
    held = any(node.name == "missing_is_no_code" for node in model.graph.node)
    assert held == (31 < n_codes < 1000)  # of 1000, code 0 is in no set without NaN
    engine = wasm.WasmEngine(model, node, onnxruntime_web / "dist")
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    assert np.array_equal(engine.raw(X), reference.raw(forest, X))


@pytest.mark.full
@pytest.mark.parametrize(("library", "n_codes"), [case.values for case in CASES])
def test_a_page_in_chromium_answers_as_the_reference(browser, library, n_codes):
    forest = trained(library, n_codes)
    X = rows_of(forest, n_codes)
    # A file has labels: codes of the book, and an empty cell for what is missing.
    X = X[np.isnan(X[:, 0]) | np.isin(X[:, 0], np.arange(len(forest.inputs.categories[0])))]
    X = X[np.random.default_rng(0).permutation(len(X))[:1500]]
    book = [*forest.inputs.categories[0], ""]
    codes = np.where(np.isnan(X[:, 0]), len(book) - 1, X[:, 0]).astype(int)
    numbers = ["" if np.isnan(x) else repr(float(x)) for x in X[:, 1]]
    lines = [f"{book[code]},{x}" for code, x in zip(codes, numbers, strict=True)]
    (browser.folder / "rows.csv").write_text("\n".join(["c,x", *lines]) + "\n")
    browser.page(forest, page_model(forest))
    _, cells = browser.predict(browser.folder / "rows.csv")
    found = cells[:, 0].astype(np.float64).astype(forest.output.dtype)
    assert np.array_equal(found, reference.raw(forest, X)[:, 0])


@pytest.fixture
def saved(iris, tmp_path):
    path = tmp_path / "iris.safetensors"
    bitvec.save(iris[2], path)
    return path


@pytest.mark.parametrize("form", ["tree_ensemble", "traversal"])
def test_a_file_is_certified_in_its_own_runtime(node, onnxruntime_web, iris, tmp_path, form):
    forest = iris[2]  # of named classes: labels are texts
    given = {"target": "onnxruntime-web", "leaves": True, "form": form}
    path = bitvec.export(forest, tmp_path / "iris.onnx", **given)
    certificate = bitvec.certify(forest, wasm.certified(path, onnxruntime_web))
    first = certificate.summary().splitlines()[0]
    version = json.loads((onnxruntime_web / "package.json").read_text())["version"]
    grade = "proved" if form == "tree_ensemble" else "two-sided"
    assert first.startswith(f"PASSED, {grade}: forest against onnxruntime-web {version}, leaf ids")
    other = bitvec.convert(iris[1].__class__(20, max_depth=3, random_state=1).fit(*iris_of(iris)))
    assert not bitvec.certify(other, wasm.certified(path, onnxruntime_web)).passed


def iris_of(iris):
    """The columns and labels that the model was trained on."""
    return iris[0], iris[1].predict(iris[0])


def run(*arguments):
    return CliRunner().invoke(program, list(map(str, arguments)))


def test_the_command_certifies_files_and_pages(node, onnxruntime_web, saved, tmp_path, monkeypatch):
    package = ("--onnxruntime-web", onnxruntime_web)
    for what in (("iris.onnx", "--target", "onnxruntime-web"), ("page", "--to", "web")):
        result = run("export", saved, "-o", tmp_path / what[0], *what[1:], *package, "--certify")
        assert result.exit_code == 0, result.output
        assert "PASSED, proved: forest against onnxruntime-web 1." in result.stdout
        assert (tmp_path / f"{what[0]}.certificate.json").is_file()
    monkeypatch.chdir(tmp_path)
    assert wasm.find_package() is None
    command = ("export", saved, "-o", "again.onnx", "--target", "onnxruntime-web", "--certify")
    assert "onnxruntime in place of onnxruntime-web" in run(*command).stdout
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "onnxruntime-web").symlink_to(onnxruntime_web)
    assert "against onnxruntime-web 1." in run(*command).stdout


def test_a_folder_that_is_no_package_and_a_package_that_fails_are_refused(node, iris, tmp_path):
    path = bitvec.export(iris[2], tmp_path / "iris.onnx", target="onnxruntime-web")
    with pytest.raises(InputError, match=r"without ort\.node\.min\.mjs"):
        wasm.certified(path, tmp_path)
    (tmp_path / "ort.node.min.mjs").write_text("throw new Error('a broken package');")
    (tmp_path / "ort-wasm-simd-threaded.wasm").touch()
    with pytest.raises(FileFormatError, match="a broken package"):
        wasm.certified(path, tmp_path)
    (tmp_path / "ort.node.min.mjs").write_text("process.exit(3);")
    with pytest.raises(FileFormatError, match="node ended with code 3"):
        wasm.certified(path, tmp_path)


def test_without_node_nothing_is_run(monkeypatch, tmp_path):
    (tmp_path / "ort.node.min.mjs").touch()
    (tmp_path / "ort-wasm-simd-threaded.wasm").touch()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert wasm.certified(tmp_path / "any.onnx", tmp_path) is None
