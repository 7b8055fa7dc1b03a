"""Laws of the ONNX form `tensor`: what onnxruntime answers is what the reference answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chain_forests import chains
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, SET

from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.tensor import size_classes, to_onnx

STANDARD = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)


def test_the_file_grows_with_nodes_not_with_leaves_times_nodes():
    small, large = (to_onnx(chains([n])).ByteSize() for n in (500, 1000))
    assert large < 2.1 * small


def test_size_classes_hold_each_tree_of_two_leaves_once():
    sizes = np.array([1, 2, 3, 64, 65, 1000, 2, 1])
    classes = size_classes(sizes)
    assert sorted(np.concatenate(classes).tolist()) == [1, 2, 3, 4, 5, 6]
    # Half powers of two: sqrt(2), and one leaf more for the rounding of small sizes.
    assert all(sizes[t].max() <= np.sqrt(2) * sizes[t].min() + 1 for t in classes)


def test_what_the_form_cannot_hold_is_refused_in_one_sentence():
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_onnx(stump.take([]))
    with pytest.raises(UnsupportedModelError, match="`tree_ensemble`"):
        to_onnx(chains([20_000]))
    huge = Output(2, np.dtype(np.float64), classes=(np.array([0, 2**64 - 1], np.uint64),))
    forest = replace(stump, leaves=Leaves(np.eye(2)), output=huge)
    with pytest.raises(UnsupportedModelError, match="int64"):
        to_onnx(forest)
