"""Laws of the ONNX form `traversal`: what onnxruntime answers is what the reference answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from chain_forests import chains
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, SET

from bitvec.converters.onnx.session import OnnxEngine, open_session
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, Relation, axis_aligned, set_bits
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


def plain_answers(forest: Forest, X: np.ndarray, present: np.ndarray, *, finite: bool):
    """Leaves and raw scores by a graph without NaN."""
    model = to_onnx(forest, leaves=True, interface=Interface(plain=True), finite=finite)
    kinds = {node.op_type for node in model.graph.node}
    assert not kinds & {"IsNaN", "CumSum", "BitwiseAnd"}
    constants = map(onnx.numpy_helper.to_array, model.graph.initializer)
    assert not any(np.isnan(a).any() for a in constants if a.dtype.kind == "f")
    given = {"X": X, "present": present.astype(X.dtype)}
    session = open_session(model, 1)
    fed = {read.name: given[read.name] for read in session.get_inputs()}
    assert ("present" in fed) != finite
    return session.run(["leaves", "raw"], fed)


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_nan_every_value_goes_where_it_goes_with_it(relation, dtype, finite):
    b = np.array([-1e30, -1, 0.0, np.finfo(dtype).tiny, 1, 1e30], dtype)
    X = np.concatenate([b, np.nextafter(b, np.inf), np.nextafter(b, -np.inf), [-0.0]])[:, None]
    b, right = (a.ravel() for a in np.meshgrid(b, [False, True]))
    forest = chains([2] * b.size + [9, 3])
    rest = forest.n_nodes - b.size
    tests = axis_aligned(
        np.zeros(forest.n_nodes),
        np.append(b, np.linspace(-2, 2, rest)).astype(dtype),
        relation=relation,
        missing_right=np.append(right, np.arange(rest) % 2 == 1) & (not finite),
    )
    forest = replace(forest, tests=tests)
    X = X.astype(dtype)
    present = (np.arange(len(X)) % 4 != 1)[:, None] | finite
    rows = np.where(present, X, dtype(np.nan))
    leaves, raw = plain_answers(forest, X, present, finite=finite)
    assert np.array_equal(leaves, reference.exit_leaves(forest, rows))
    assert np.array_equal(raw, reference.raw(forest, rows))


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("code_rule", list(CodeRule))
def test_without_nan_and_bits_sets_hold_the_same_codes(code_rule, finite):
    codes = [[0], [0, 1, 2, 31], [5, 31, 32, 40], list(range(50)), [63]] * 2
    ptr, words = set_bits([np.array(c, int) for c in codes])
    right = np.arange(10) < 5
    tests = axis_aligned(
        np.zeros(10), np.zeros(10, np.float32), kind=Kind.SET, code_rule=code_rule,
        set_ptr=ptr, set_words=words, missing_right=right, other_right=right,
    )  # fmt: skip
    forest = replace(chains([2] * 10), tests=tests)
    X = np.concatenate([np.arange(-2.0, 70), np.arange(-2, 70) + 0.5, [1e6, -1e6]])[:, None]
    X = X.astype(np.float32)
    present = (np.arange(len(X)) % 5 != 0)[:, None] | finite
    leaves, _ = plain_answers(forest, X, present, finite=finite)
    expected = reference.exit_leaves(forest, np.where(present, X, np.float32(np.nan)))
    assert np.array_equal(leaves, expected)
    if not finite:
        apart = replace(forest, tests=replace(tests, missing_right=~right))
        with pytest.raises(UnsupportedModelError, match="got 10 nodes that are not"):
            plain_answers(apart, X, present, finite=False)


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
