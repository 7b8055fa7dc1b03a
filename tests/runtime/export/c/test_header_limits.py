"""Laws of what a C header costs, what it can leave out, and what it cannot hold."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import (
    KERNEL,
    POLYTOPE,
    forests,
)

import bitvec
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.structure import arrange
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.c import to_c


@pytest.fixture(scope="module")
def random_forest():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=2000), [-0.5, 0.5])
    model = ensemble.RandomForestClassifier(50, max_depth=8, random_state=0).fit(X, y)
    return bitvec.convert(model)


def test_a_forest_of_depth_8_takes_at_most_24_bytes_a_node(random_forest):
    exact = to_c(random_forest).estimate
    ranks = to_c(random_forest, thresholds="ranks").estimate
    assert exact.n_nodes == random_forest.n_nodes
    assert exact.bytes_per_inner_node <= 24
    assert ranks.bytes_per_inner_node <= 24
    assert exact.most_comparisons <= 50 * 8
    assert exact.stack_bytes == 3 * 8


def test_equal_leaf_vectors_are_kept_once():
    v = np.tile([[0.1, 0.2, 0.7], [0.25, 0.35, 0.4]], (128, 1))
    left, right = [], []
    for node in range(255):  # a chain
        left.append(~node)
        right.append(node + 1 if node < 254 else ~255)
    B = arrange(left, right, [0])[0]
    tests = axis_aligned(np.zeros(255, int), np.arange(255, dtype=np.float32))
    forest = Forest(tests, B, Leaves(v), Output(3, np.dtype(np.float64)), Inputs(1))
    # A node: 1 byte of column, 1 of threshold, 1 of leaves on its left. A leaf: 1 of its vector.
    n_bytes = 255 * 3 + 256 * 1 + 2 * 3 * 8 + 2 * 2
    assert to_c(forest).estimate.constant_bytes == n_bytes


def test_ranks_are_refused_where_no_node_has_one():
    oblique = Forest.from_matrices([[1.0, 2.0]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(InputError, match=r'compares one column with a threshold.*"exact"'):
        to_c(oblique, thresholds="ranks")
    mixed = Forest.from_matrices(
        [[1.0, 2.0], [1.0, 0.0]], [0.5, 1.0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3]
    )
    assert "typedef uint8_t model_rank;" in to_c(mixed, thresholds="ranks").text


def test_a_header_without_math_holds_what_needs_none(stump, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    output = Output(
        1,
        np.dtype(np.float64),
        post_transform=PostTransform.SIGMOID,
        classes=(np.array([0, 1]),),
    )
    source = to_c(replace(stump, output=output))
    source.save(tmp_path / "model.h")
    for call, passes in (("model_raw(x, y)", True), ("model_probabilities(x, y)", False)):
        (tmp_path / "main.c").write_text(
            '#define MODEL_NO_MATH\n#include "model.h"\n#ifdef _MATH_H\n#error\n#endif\n'
            f"void answer(const double *x, double *y);\n"
            f"void answer(const double *x, double *y) {{ {call}; }}\n"
        )
        command = ["gcc", "-std=c99", "-Werror", "-fsyntax-only", str(tmp_path / "main.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == passes, done.stderr


def test_a_saved_header_is_whole_and_nothing_else_is_left(stump, tmp_path):
    source = to_c(stump)
    path = tmp_path / "model.h"
    assert source.save(path) == path
    assert path.read_text() == source.text
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.h"]
    assert source.save(tmp_path / "MODEL.H").read_text() == source.text
    with pytest.raises(InputError, match=r"end in \.h"):
        source.save(tmp_path / "model.c")


def test_what_a_header_cannot_hold_is_refused_in_one_sentence(stump):
    median = Output(
        1, np.dtype(np.float64), aggregate=Aggregate.WEIGHTED_MEDIAN, tree_weight=np.ones(1)
    )
    with pytest.raises(UnsupportedModelError, match="weighted median"):
        to_c(replace(stump, output=median))
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_c(stump.take([]))
    with pytest.raises(InputError, match="`form` must be one of"):
        to_c(stump, form="table")
    with pytest.raises(InputError, match="`thresholds` must be one of"):
        to_c(stump, thresholds="rank")
    with pytest.raises(TypeError, match="bitvec Forest"):
        to_c("model")


def test_trees_too_large_to_unroll_are_refused_with_the_other_form(random_forest):
    with pytest.raises(UnsupportedModelError, match=r"4096 nodes at most.*`tables`"):
        to_c(random_forest, form="unrolled")
    left = [~node for node in range(101)]
    right = [node + 1 for node in range(100)] + [~101]
    tests = axis_aligned(np.zeros(101, int), np.arange(101.0))
    leaves = Leaves(np.zeros((102, 1)))
    B = arrange(left, right, [0])[0]
    chain = Forest(tests, B, leaves, Output(1, np.dtype(np.float64)), Inputs(1))
    with pytest.raises(UnsupportedModelError, match=r"depth 100 at most, got 101.*`tables`"):
        to_c(chain, form="unrolled")


@pytest.mark.parametrize("n_thresholds", [254, 255, 65534, 65535])
def test_ranks_take_the_narrowest_type_that_counts_them(n_thresholds):
    child = np.arange(1, 2 * n_thresholds + 1)  # a complete tree
    child = np.where(child < n_thresholds, child, ~(child - n_thresholds))
    B = arrange(child[::2], child[1::2], [0])[0]
    b = np.arange(n_thresholds, dtype=np.float32)
    leaves = Leaves(np.zeros((n_thresholds + 1, 1)))
    tests = axis_aligned(np.zeros(n_thresholds, int), b)
    forest = Forest(tests, B, leaves, Output(1, np.dtype(np.float64)), Inputs(1))
    if n_thresholds == 65535:
        with pytest.raises(UnsupportedModelError, match='thresholds="exact"'):
            to_c(forest, thresholds="ranks")
        return
    kind = "uint8_t" if n_thresholds == 254 else "uint16_t"
    assert f"typedef {kind} model_rank;" in to_c(forest, thresholds="ranks").text


@settings(max_examples=5)
@given(forests(kinds=(POLYTOPE,)).filter(lambda forest: forest.n_nodes > 0))
def test_polytopes_are_refused(forest):
    with pytest.raises(UnsupportedModelError, match="polytope"):
        to_c(forest)


@settings(max_examples=5)
@given(forests(kinds=(KERNEL,), soft=True).filter(lambda f: f.kernel is not None))
def test_a_soft_forest_is_refused(forest):
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        to_c(forest)
