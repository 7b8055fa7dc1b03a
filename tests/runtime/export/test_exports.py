"""What `export` and its sisters say where they are given something else than they take."""

from __future__ import annotations

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.core.machine import from_forest
from bitvec.errors import InputError
from bitvec.runtime.export.c import to_c

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("without_shape_checks")


def stump():
    return Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [10.0, 20.0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch": "8"}, "`batch` must be a number of rows from 1 to 2147483647, .* got '8'"),
        ({"batch": True}, "`batch` must be a number of rows .* got True"),
        ({"batch": 2.5}, "`batch` must be a number of rows .* got 2.5"),
        ({"batch": 2**31}, "`batch` must be a number of rows .* got 2147483648"),
        ({"outputs": 5}, "`outputs` must be a list of at least one name, got 5"),
        ({"outputs": "label"}, "`outputs` must be a list of at least one name, got 'label'"),
        ({"outputs": [1]}, r"`outputs` must be a list of at least one name, got \[1\]"),
        ({"outputs": []}, r"`outputs` must be a list of at least one name, got \[\]"),
        ({"target": ["openvino"]}, r"the target must be one of .* got \['openvino'\]"),
        ({"to": ["onnx"]}, r"`to` must be one of .* got \['onnx'\]"),
        ({"to": "page"}, "got 'page': choose one, or .web. or .triton. for a directory"),
        ({"to": "web"}, "a page must be written with `onnxruntime_web`, got none: run .npm"),
        ({"to": "web", "batch": 3}, "`batch` must be left out where web is written"),
        ({"title": "Irises"}, "`title` must be left out where onnx is written"),
        ({"form": ["tensor"]}, r"`form` must be one of .* got \['tensor'\]"),
    ],
)
def test_an_option_of_another_type_is_one_sentence(options, says, tmp_path):
    with pytest.raises(InputError, match=says):
        bitvec.export(stump(), tmp_path / "no.onnx", **options)
    assert not list(tmp_path.iterdir())


def test_a_number_of_rows_may_be_numpys(tmp_path):
    path = bitvec.export(stump(), tmp_path / "a.onnx", batch=np.int64(3), outputs=iter(["raw"]))
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tree": 1.5}, "`tree` must be the number of a tree, got 1.5"),
        ({"tree": "0"}, "`tree` must be the number of a tree, got '0'"),
        ({"tree": 7}, "`tree` must be below 1"),
        ({"title": 5}, "`title` must be text that UTF-8 can hold, got 5"),
        ({"title": chr(0xD800)}, r"`title` must be text that UTF-8 can hold, got '\\ud800'"),
    ],
)
def test_an_option_of_a_page_of_another_type_is_one_sentence(options, says, tmp_path):
    with pytest.raises(InputError, match=says):
        bitvec.export(stump(), tmp_path / "page", to="web", onnxruntime_web=tmp_path, **options)


def test_a_machine_or_soft_forest_where_a_forest_must_be_is_told_how_to_become_one(tmp_path):
    models = [from_forest(stump())]
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    else:
        models.append(bitvec.to_torch(stump(), "sigmoid"))
    remedies = {"DecisionMachine": "core.machine.to_forest", "SoftForest": "from_torch"}
    for model in models:
        name = type(model).__name__
        for call in (
            lambda model=model: bitvec.export(
                model, tmp_path / "p", to="web", onnxruntime_web=tmp_path
            ),
            lambda model=model: to_c(model),
            lambda model=model: bitvec.certify(model, tmp_path / "a.onnx"),
        ):
            with pytest.raises(TypeError, match=rf"got bitvec\S*{name}: .*bitvec.{remedies[name]}"):
                call()
        with pytest.raises(
            InputError, match=rf"a {name} must be exported as \.onnx.*, got `to` = 'c'"
        ):
            bitvec.export(model, tmp_path / "a.h")
