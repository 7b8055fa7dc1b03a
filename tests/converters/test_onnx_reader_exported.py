"""Laws of ONNX files that bitvec wrote: reading them gives the forest that was written."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KERNEL, ONE_HOT, forests, forests_with_rows

from bitvec import certify
from bitvec import convert as convert_any
from bitvec.certification import oracle_of as oracle_of_estimator
from bitvec.converters.onnx.model_oracle import oracle_of
from bitvec.converters.onnx.read import convert
from bitvec.converters.onnx.write import to_onnx
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform
from bitvec.errors import UnsupportedModelError


@given(forests_with_rows(kinds=(*ONE_HOT, KERNEL)), st.booleans())
def test_writing_and_reading_keeps_leaves_and_raw_scores(drawn, leaves):
    forest, X = drawn
    back = convert(to_onnx(forest, leaves=leaves).SerializeToString())
    for name in ("lo", "mid", "hi", "leaf_ptr"):
        assert np.array_equal(getattr(back.bitvectors, name), getattr(forest.bitvectors, name))
    assert np.array_equal(reference.exit_leaves(back, X), reference.exit_leaves(forest, X))
    with np.errstate(all="ignore"):
        expected, raw = reference.raw(forest, X), reference.raw(back, X)
    assert raw.dtype == expected.dtype
    assert np.array_equal(raw, expected, equal_nan=True)
    answers = (transforms.predictions(f.output, expected) for f in (forest, back))
    assert np.array_equal(*answers, equal_nan=forest.output.classes is None)


@settings(max_examples=20)
@given(forests_with_rows(kinds=ONE_HOT, max_leaves=10))
def test_the_oracle_of_an_exported_file_is_its_raw_output(drawn):
    pytest.importorskip("onnxruntime")
    forest, X = drawn
    model = to_onnx(forest)
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    assert np.array_equal(oracle_of(model).raw(X), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transform", list(PostTransform))
def test_each_transform_comes_back(transform, dtype):
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [[0.25, 0.0, 2.0], [0.75, 0.3, 1.0]])
    output = Output(
        3, np.dtype(dtype), post_transform=transform, scale=np.array([2, -1, 0.5], dtype)
    )
    forest = replace(stump, leaves=Leaves(stump.v.astype(dtype)), output=output)
    model = to_onnx(forest)
    back = convert(model)
    assert back.output.post_transform is transform
    assert np.array_equal(back.output.scale, output.scale)
    X = np.array([[-1.0], [1.0]])
    assert np.array_equal(reference.raw(back, X), reference.raw(forest, X))
    pytest.importorskip("onnxruntime")
    assert certify(back, model, X).n_raw_mismatches == 0


def test_the_boundary_of_two_classes_comes_back():
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [[0.25], [0.75]])
    classes = (np.array(["no", "yes"]),)
    for raw, boundary in itertools.product((False, True), (None, 0.5, 0.25, 0.375)):
        options = {"classes": classes, "labels_from_raw": raw, "boundary": boundary}
        forest = replace(stump, output=Output(1, stump.output.dtype, **options))
        back = convert(to_onnx(forest))
        assert back.output.second_above == forest.output.second_above


@given(forests(kinds=ONE_HOT, max_leaves=8), st.integers(0, 2**32 - 1))
def test_a_file_that_was_changed_is_refused(forest, seed):
    model = to_onnx(forest)
    rng = np.random.default_rng(seed)
    graph = model.graph
    choice = int(rng.integers(3))
    if choice == 0:
        graph.node.pop(int(rng.integers(len(graph.node))))
    elif choice == 1:
        graph.node[int(rng.integers(len(graph.node)))].op_type = "Exp"
    else:
        graph.node.append(onnx.helper.make_node("Exp", ["raw"], ["exp"], name="exp"))
    # Without its trees it is no file of this package.
    with pytest.raises(UnsupportedModelError, match=r"as this version writes it|got 0 among"):
        convert(model)


def test_the_tensor_form_is_refused_by_its_name_and_still_is_a_oracle(tmp_path):
    pytest.importorskip("onnxruntime")
    from sklearn.tree import DecisionTreeClassifier

    from bitvec.runtime.export.onnx import tensor
    from bitvec.runtime.export.onnx.files import save

    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    forest = convert_any(DecisionTreeClassifier(max_depth=3).fit(X, X[:, 0] > 0))
    matrices = Path(save(tensor.to_onnx(forest), tmp_path / "matrices.onnx"))
    with pytest.raises(UnsupportedModelError, match=r"matrices\.onnx: .*form `tree_ensemble`"):
        convert_any(matrices)
    assert np.array_equal(oracle_of_estimator(matrices).raw(X), reference.raw(forest, X))
    trees = Path(save(to_onnx(forest), tmp_path / "trees.onnx"))
    for model in (trees, str(trees), onnx.load(trees)):
        assert np.array_equal(reference.raw(convert_any(model), X), reference.raw(forest, X))
    assert np.array_equal(oracle_of_estimator(trees).raw(X), reference.raw(forest, X))
