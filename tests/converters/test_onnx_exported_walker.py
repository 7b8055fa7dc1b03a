"""Laws of the walker of exported files: what the file states proves the forest, and no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from proof_laws import mutants
from strategies import ONE_HOT, forests

from bitvec.certification import oracle_of as oracle_of_estimator
from bitvec.converters.onnx.exported_walker import exported_trees
from bitvec.converters.onnx.read import convert
from bitvec.converters.onnx.write import to_onnx
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.to_float32 import narrow_tests
from bitvec.errors import UnsupportedModelError
from bitvec.verify.certificates.proof import prove
from bitvec.verify.renumbering import as_written, with_written_trees
from bitvec.verify.source_trees import of_forest


def proved(forest: Forest, model: onnx.ModelProto) -> bool | None:
    """Whether the trees of a file prove a forest; None if it holds other leaves."""
    written = exported_trees(model)
    trees = None if written is None else as_written(forest, written)
    if trees is None:
        return None
    return prove(forest, trees, missing=True, infinite=True).holds


@settings(max_examples=25)
@given(forests(kinds=ONE_HOT, max_leaves=10))
def test_a_file_of_constant_leaves_proves_its_forest(forest: Forest) -> None:
    for leaves in (False, True):
        held = proved(forest, to_onnx(forest, leaves=leaves))
        assert held is (None if forest.leaves.linear is not None else True)


@settings(max_examples=25)
@given(forests(kinds=ONE_HOT, max_leaves=10))
def test_a_file_of_version_3_proves_the_forest_on_rows_of_float32(forest: Forest) -> None:
    try:
        model = to_onnx(forest, version=3)
    except UnsupportedModelError:
        return
    assert proved(narrow_tests(forest), model)


def test_a_wrong_column_or_threshold_of_a_file_is_a_difference() -> None:
    stump = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10.0, 20.0])
    changed = mutants(stump, of_forest(stump))
    of_tests = [name for name in changed if name.endswith("margin, 0")]
    assert len(of_tests) == 4
    for name in of_tests:
        assert proved(stump, to_onnx(changed[name])) is False
    assert proved(stump, to_onnx(changed["first leaf by an ulp"])) is None


@pytest.mark.parametrize("weight", [None, [0.5, 3.0]])
def test_the_oracle_of_a_path_carries_the_trees_of_the_file(weight, tmp_path) -> None:
    pytest.importorskip("onnxruntime")
    pair = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10.0, 20.0]).take([0, 0])
    weight = None if weight is None else np.array(weight)
    forest = replace(pair, output=replace(pair.output, tree_weight=weight))
    path = tmp_path / "forest.onnx"
    path.write_bytes(to_onnx(forest).SerializeToString())
    trees = with_written_trees(forest, oracle_of_estimator(path)).trees
    assert trees is not None
    assert prove(forest, trees(), missing=True, infinite=True).holds


def test_a_file_whose_constants_were_renamed_states_no_trees() -> None:
    stump = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [[10.0, 1.0], [20.0, 2.0]])
    model = to_onnx(stump)
    assert exported_trees(model) is not None
    for constant in model.graph.initializer:
        constant.name += "_"
    assert exported_trees(model) is None


def test_a_copy_without_nan_sends_a_missing_value_left_whatever_the_operator_says() -> None:
    stump = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10.0, 20.0])
    codes = np.array([1, 1 << 8], np.uint32)  # 0 and 40
    tests = replace(
        stump.tests, kind=[Kind.SET], set_ptr=[0, 2], set_words=codes, missing_right=[False]
    )
    forest = replace(stump, tests=tests)
    model = to_onnx(forest)
    node = next(node for node in model.graph.node if node.op_type == "TreeEnsemble")
    flags = next(a for a in node.attribute if a.name == "nodes_missing_value_tracks_true")
    flags.ints[-1] = 1
    assert proved(forest, model)
    with pytest.raises(UnsupportedModelError, match="it was changed"):
        convert(model)
    marked = next(c for c in model.graph.initializer if c.name == "missing_is_no_code.1")
    marked.CopyFrom(onnx.numpy_helper.from_array(np.array([False]), marked.name))
    assert proved(forest, model) is False
