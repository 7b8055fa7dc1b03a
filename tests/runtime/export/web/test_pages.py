"""Laws of a page's directory: whole or not there, nobody else's files lost, texts escaped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import box
from bitvec.core.output import Output
from bitvec.core.source import Source
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError

pytest.importorskip("onnx")

from bitvec.runtime.export import directories
from bitvec.runtime.export.onnx.tensor import to_onnx
from bitvec.runtime.export.web import write
from bitvec.runtime.export.web.facts import features, output_names, start_values
from bitvec.runtime.export.web.onnxruntime_web import SCRIPTS, runtime_files

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with the files that are asked for, and one that is not."""
    dist = tmp_path / "onnxruntime-web" / "dist"
    dist.mkdir(parents=True)
    for name in (*SCRIPTS, "ort.all.min.js"):
        (dist / name).write_bytes(name.encode())
    return dist.parent


def stump(**changes: object) -> Forest:
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    return replace(forest, **changes)


def make(forest: Forest, folder: Path, package: Path, **options: object) -> Path:
    model = to_onnx(forest, leaves=True)
    return write(forest, model, folder, onnxruntime_web=package, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("of", ["", "dist"])
def test_a_page_holds_what_it_needs_and_no_more(tmp_path, package, of):
    forest = stump()
    folder = make(forest, tmp_path / "page", package / of)
    files = contents(folder)
    model = to_onnx(forest, leaves=True).SerializeToString()
    assert files["model.onnx"] == model
    assert {"index.html", "page.js", "page.css", "forest.json"} <= files.keys()
    runtime = {name for name in files if name.startswith("onnxruntime/")}
    assert runtime == {f"onnxruntime/{name}" for name in (*SCRIPTS.values(), "LICENSE")}
    assert json.loads(files["files.json"])["files"] == sorted(files.keys() - {"files.json"})
    facts = json.loads(files["forest.json"])
    assert facts["model_bytes"] == len(model)
    assert not [name for name in files if name.endswith(".mjs")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["onnxruntime-web", "page"]


def test_every_script_that_is_imported_is_there_and_no_address_leads_away(tmp_path, package):
    files = contents(make(stump(), tmp_path / "page", package))
    for name, content in files.items():
        if name.endswith((".js", ".html", ".css")) and "/" not in name:
            text = content.decode()
            assert text.replace("http://www.w3.org/2000/svg", "").count("://") == 0
            for line in text.splitlines():
                if line.startswith("import "):
                    assert line.split('"')[1].removeprefix("./") in files
    assert b"default-src 'none'" in files["index.html"]


def test_bytes_are_taken_as_a_model_is(tmp_path, package):
    model = to_onnx(stump(), leaves=True)
    ways = (model, model.SerializeToString())
    pages = [
        write(stump(), way, tmp_path / str(at), onnxruntime_web=package)
        for at, way in enumerate(ways)
    ]
    assert contents(pages[0]) == contents(pages[1])


def test_texts_of_the_model_are_no_markup(tmp_path, package):
    forest = stump(inputs=Inputs(2, (HOSTILE, "b")))
    files = contents(make(forest, tmp_path / "page", package, title=HOSTILE))
    assert files["index.html"].count(b"<script") == 1
    assert b"&lt;script&gt;alert(&#x27;x&#x27;)" in files["index.html"]
    assert json.loads(files["forest.json"])["features"][0]["name"] == HOSTILE


@pytest.mark.parametrize(
    ("source", "title"),
    [
        (None, "Forest"),
        (Source("sklearn", "1.7", "RandomForestClassifier"), "RandomForestClassifier"),
        (Source("lightgbm", "v4", "multiclass num_class:3"), "Forest from lightgbm"),
        (Source("xgboost", "3.0", "binary:logistic"), "Forest from xgboost"),
        (Source("lightgbm", "v4", "regression"), "Forest from lightgbm"),
        (Source("ydf", "", ""), "Forest from ydf"),
    ],
    ids=str,
)
def test_the_title_is_a_class_of_models_or_the_library(tmp_path, package, source, title):
    files = contents(make(stump(source=source), tmp_path / "page", package))
    assert json.loads(files["forest.json"])["title"] == title


def test_an_earlier_page_and_an_empty_directory_are_replaced(tmp_path, package):
    (tmp_path / "page").mkdir()
    make(stump(), tmp_path / "page", package, title="first")
    before = contents(tmp_path / "page")
    make(stump(), tmp_path / "page", package, title="second")
    after = contents(tmp_path / "page")
    assert before.keys() == after.keys()
    assert b"first" in before["index.html"]
    assert b"second" in after["index.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["onnxruntime-web", "page"]


def test_a_link_stays_a_link(tmp_path, package):
    (tmp_path / "real").mkdir()
    (tmp_path / "page").symlink_to(tmp_path / "real", target_is_directory=True)
    make(stump(), tmp_path / "page", package)
    assert (tmp_path / "page").is_symlink()
    assert (tmp_path / "real" / "index.html").is_file()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", "mine"),
        (".git/config", "mine"),
        ("index.html", "mine"),
        ("files.json", "[]"),
        ("files.json", '{"kind": "another", "files": ["files.json"]}'),
    ],
)
def test_a_directory_of_other_files_is_refused(tmp_path, package, name, content):
    path = tmp_path / "page" / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(InputError, match=f"hold an earlier page and nothing else, got {name}"):
        make(stump(), tmp_path / "page", package)
    assert path.read_text() == content


def test_a_page_with_a_file_of_someones_is_refused(tmp_path, package):
    folder = make(stump(), tmp_path / "page", package)
    (folder / "CNAME").write_text("example.org")
    with pytest.raises(InputError, match="got CNAME"):
        make(stump(), folder, package)
    assert (folder / "CNAME").is_file()


def test_a_file_in_the_place_is_refused(tmp_path, package):
    (tmp_path / "page").write_text("mine")
    with pytest.raises(InputError, match="must be a directory, got a file"):
        make(stump(), tmp_path / "page", package)
    assert (tmp_path / "page").read_text() == "mine"


def test_a_missing_folder_above_is_one_sentence(tmp_path, package):
    for path in (tmp_path / "no" / "page", ""):
        with pytest.raises(OSError, match=r"must be a directory that can be written, got: .+\.$"):
            make(stump(), path, package)


@pytest.mark.parametrize("step", ["_fill", "_rename"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, package, monkeypatch, step, earlier):
    folder = tmp_path / "page"
    before = contents(make(stump(), folder, package)) if earlier else {}
    true = Path.rename

    def fail(*_: object) -> None:
        raise OSError("no space left")

    if step == "_fill":
        monkeypatch.setattr(directories, "_record", fail)
    else:
        monkeypatch.setattr(
            Path, "rename", lambda a, b: fail() if a.suffix == ".tmp" else true(a, b)
        )
    with pytest.raises(OSError, match="no space left"):
        make(stump(), folder, package, title="other")
    assert contents(folder) == before
    names = ["onnxruntime-web", "page"] if earlier else ["onnxruntime-web"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_another_package_is_refused(tmp_path):
    with pytest.raises(InputError, match="npm install onnxruntime-web"):
        runtime_files(tmp_path)


def test_a_license_of_the_package_goes_before_ours(package):
    assert b"Copyright (c) Microsoft Corporation" in runtime_files(package)["LICENSE"]
    (package / "LICENSE").write_text("theirs")
    assert runtime_files(package)["LICENSE"] == b"theirs"


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (3, InputError, "must be bytes or an onnx.ModelProto"),
        (b"nonsense", FileFormatError, "must be an ONNX model"),
        (to_onnx(stump()), InputError, "output `leaves` of 1 columns, got none"),
        (
            to_onnx(Forest.from_matrices([[1, 0, 0]], [0.5], [[0], [1]], [10, 20]), leaves=True),
            InputError,
            "one input `X` of 2 columns",
        ),
        (
            to_onnx(
                Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [[1, 2], [3, 4]]), leaves=True
            ),
            InputError,
            "output `prediction` of 1 columns, got 2",
        ),
    ],
)
def test_another_model_is_refused(tmp_path, package, model, error, message):
    with pytest.raises(error, match=message):
        write(stump(), model, tmp_path / "page", onnxruntime_web=package)
    assert not (tmp_path / "page").exists()


def test_what_the_page_cannot_show_is_refused(tmp_path, package):
    model = to_onnx(stump(), leaves=True)
    with pytest.raises(InputError, match="`tree` must be below 1"):
        write(stump(), model, tmp_path / "page", onnxruntime_web=package, tree=1)
    leaf = Forest.from_matrices(np.zeros((0, 2)), [], np.zeros((1, 0)), [10])
    soft = replace(leaf, kernel=(box(0.5), None))
    with pytest.raises(UnsupportedModelError, match="a prediction kernel"):
        write(soft, model, tmp_path / "page", onnxruntime_web=package)
    with pytest.raises(TypeError, match="a bitvec Forest must be given"):
        write("forest", model, tmp_path / "page", onnxruntime_web=package)


def test_a_feature_starts_at_the_middle_of_its_thresholds():
    forest = Forest.from_matrices(
        [[1, 0, 0], [1, 0, 0], [1, 0, 0]],
        [3.0, 0.25, np.inf],
        [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]],
        [1, 2, 3, 4],
    )
    assert start_values(forest) == ["3", "0", "0"]
    assert [feature["used"] for feature in features(forest)] == [True, False, False]
    assert [feature["name"] for feature in features(forest)] == ["x0", "x1", "x2"]


def test_a_feature_of_sums_alone_starts_where_they_are_nearest_to_zero():
    rows = [[3.0, 4.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    B = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]
    forest = Forest.from_matrices(rows, [25.0, 50.0, 7.0, np.inf], B, [1, 2, 3, 4, 5])
    # The feet of the two planes are (3, 4) and (6, 8); x2 has a threshold of its own.
    assert start_values(forest) == ["6", "8", "7"]


def test_outputs_have_the_names_of_classes():
    two = (np.array(["a", "b"]), np.array([1, 2, 3]))
    output = Output(4, np.dtype(np.float32), classes=two, groups=(1, 3))
    assert output_names(output) == [
        "target 0 class b",
        "target 1 class 1",
        "target 1 class 2",
        "target 1 class 3",
    ]
    assert output_names(Output(2, np.dtype(np.float32))) == ["0", "1"]
