"""Laws of the ONNX form `traversal`: what onnxruntime answers is what the reference answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chain_forests import chains
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, SET

from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Relation, axis_aligned
from bitvec.core.output import Output
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx import tensor, traversal
from bitvec.runtime.export.onnx.traversal import LARGEST_DEPTH, to_onnx

STANDARD = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)


@pytest.mark.parametrize("relation", [Relation.GREATER, Relation.GREATER_EQUAL, "both"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_threshold_splits_every_value_whatever_the_relation(relation, dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    largest = np.finfo(dtype).max
    b = np.array([-np.inf, -largest, -1, -tiny, -0.0, 0.0, tiny, 1, largest, np.inf], dtype)
    X = np.append(b, dtype(np.nan))[:, None]
    relations = {"both": [0, 1]}.get(relation, [relation])
    b, relation, right = (a.ravel() for a in np.meshgrid(b, relations, [False, True]))
    stumps = chains([2] * b.size)
    tests = axis_aligned(np.zeros(b.size), b, relation=relation, missing_right=right)
    forest = replace(stumps, tests=tests)
    engine = OnnxEngine(to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))


@pytest.mark.parametrize("form", [traversal, tensor])
def test_weights_and_offsets_that_float32_does_not_hold_count(form):
    steep = Forest.from_matrices([[1 + 1e-12]], [1.0], [[0], [1]], [1, 2])
    offset = replace(
        Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2]).tests, offset=np.array([1e-50])
    )
    X = np.array([[0.0], [1e-50], [2e-50], [1 - 1e-13], [1.0]])
    for forest in (steep, replace(steep, tests=offset)):
        engine = OnnxEngine(form.to_onnx(forest))
        assert np.array_equal(engine.raw(X), reference.raw(forest, X))


def test_deep_trees_of_unlike_sizes_end_at_their_leaves():
    forest = chains([1, 300, 2, 17, 1, 64])
    X = np.arange(-1, 301, dtype=np.float32)[:, None]
    engine = OnnxEngine(to_onnx(forest, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))


def test_the_file_grows_with_nodes_not_with_their_depth():
    small, large = (to_onnx(chains([n])).ByteSize() for n in (200, 400))
    assert large < 2.1 * small
    shallow, deep = (
        to_onnx(chains([2] * 1000)).ByteSize(),
        to_onnx(chains([3] * 500 + [1])).ByteSize(),
    )
    assert deep < 1.5 * shallow


def test_what_the_form_cannot_hold_is_refused_in_one_sentence():
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_onnx(stump.take([]))
    with pytest.raises(UnsupportedModelError, match="`tree_ensemble`"):
        to_onnx(chains([LARGEST_DEPTH + 2]))
    huge = Output(2, np.dtype(np.float64), classes=(np.array([0, 2**64 - 1], np.uint64),))
    forest = replace(stump, leaves=Leaves(np.eye(2)), output=huge)
    with pytest.raises(UnsupportedModelError, match="int64"):
        to_onnx(forest)
