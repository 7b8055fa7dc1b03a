"""Values that follow from an object: worked out once, shared read-only, gone with the object."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from bitvec.core import tree_paths
from bitvec.core.forest import Forest
from bitvec.core.remembered import remembered
from bitvec.runtime.predict.cpu.bins.forest_bins import bin_forest


def _stump():
    return Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


def test_it_is_worked_out_once_for_each_object():
    asked = []

    @remembered
    def nodes(tests):
        asked.append(tests)
        return np.arange(tests.n_nodes)

    first, second = _stump().tests, _stump().tests
    assert nodes(first) is nodes(first)
    assert nodes(second) is not nodes(first)
    assert asked == [first, second]


def test_what_is_shared_cannot_be_changed():
    forest = _stump()
    for array in (
        forest.tests.is_one_hot,
        forest.tests.feature,
        tree_paths.leaf_depth(forest.bitvectors),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_forest_with_other_nodes_is_asked_anew():
    forest = _stump()
    assert forest.tests.feature.tolist() == [0]
    tests = replace(forest.tests, column=np.array([1], np.int32))
    assert tests.feature.tolist() == [1]


def test_nothing_that_is_remembered_keeps_a_forest_alive():
    forest = _stump()
    bin_forest(forest)
    tree_paths.tree_depth(forest.bitvectors)
    gone = [weakref.ref(each) for each in (forest, forest.tests, forest.bitvectors)]
    del forest
    gc.collect()
    assert [each() for each in gone] == [None, None, None]
