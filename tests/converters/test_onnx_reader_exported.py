"""Laws of ONNX files that bitvec wrote: reading them gives the forest that was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KERNEL, ONE_HOT, forests, forests_with_rows

from bitvec import convert as convert_any
from bitvec import reference, transforms
from bitvec.api import subject as subject_of
from bitvec.converters.onnx import to_onnx
from bitvec.converters.onnx.reader import convert, subject
from bitvec.errors import UnsupportedModelError


@settings(max_examples=80)
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
def test_the_subject_of_an_exported_file_is_its_raw_output(drawn):
    pytest.importorskip("onnxruntime")
    forest, X = drawn
    model = to_onnx(forest)
    with np.errstate(all="ignore"):
        expected = reference.raw(forest, X)
    assert np.array_equal(subject(model).raw(X), expected, equal_nan=True)


@settings(max_examples=30)
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
    with pytest.raises(UnsupportedModelError, match="as this version writes it"):
        convert(model)


def test_the_tensor_form_is_refused_by_its_name_and_still_is_a_subject(tmp_path):
    pytest.importorskip("onnxruntime")
    from sklearn.tree import DecisionTreeClassifier

    from bitvec.runtime.onnx import tensor
    from bitvec.runtime.onnx.session import save

    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    forest = convert_any(DecisionTreeClassifier(max_depth=3).fit(X, X[:, 0] > 0))
    matrices = Path(save(tensor.to_onnx(forest), tmp_path / "matrices.onnx"))
    with pytest.raises(UnsupportedModelError, match=r"matrices\.onnx: .*form `tree_ensemble`"):
        convert_any(matrices)
    assert np.array_equal(subject_of(matrices).raw(X), reference.raw(forest, X))
    trees = Path(save(to_onnx(forest), tmp_path / "trees.onnx"))
    for model in (trees, str(trees), onnx.load(trees)):
        assert np.array_equal(reference.raw(convert_any(model), X), reference.raw(forest, X))
    assert np.array_equal(subject_of(trees).raw(X), reference.raw(forest, X))
