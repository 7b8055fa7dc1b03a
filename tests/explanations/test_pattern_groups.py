"""Groups of leaves: they tile the leaves, and their bits tell which features of a leaf hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import EQUAL, KERNEL, ONE_HOT, SET, examples, forests, rows

from bitvec.core import reference, tree_paths
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.pattern_groups import CARE, SLOT, WANT, pattern_groups
from bitvec.explanations.pattern_vectors import BIT, LOW, MOST_BITS, WIDTH


@given(st.data())
@examples(60)
def test_bits_of_groups_tell_which_features_of_a_leaf_a_row_satisfies(data):
    kinds = (*ONE_HOT, KERNEL, SET, EQUAL)
    forest = data.draw(forests(kinds=kinds, max_leaves=40, linear=False))
    X = data.draw(rows(forest, max_rows=3))
    outcomes = OutcomeBytes(forest)
    groups = pattern_groups(forest, outcomes)
    found = outcomes.fill(X)
    right = reference.hard_tests(forest, reference.columns(forest, X))
    ptr, node, goes_right = tree_paths.path_table(forest.bitvectors)
    assert groups.leaf[0] == 0
    assert groups.leaf[-1] == forest.n_leaves
    assert np.all(np.diff(groups.leaf) > 0)
    for g in range(groups.bits.size):
        tests = range(groups.test_ptr[g], groups.test_ptr[g + 1])
        leaves = range(groups.leaf[g], groups.leaf[g + 1])
        slot = groups.slot[groups.slot_ptr[g] : groups.slot_ptr[g + 1]]
        assert len(leaves) == 1 or groups.bits[g] <= MOST_BITS
        for row in range(len(X)):
            pattern = (1 << int(groups.bits[g])) - 1
            for t in tests:
                low, width, bit = (int(groups.tests[t, field]) for field in (LOW, WIDTH, BIT))
                if not low <= found[groups.column[t], row] < low + width:
                    pattern &= ~(1 << bit)
            for leaf in leaves:
                path = slice(ptr[leaf], ptr[leaf + 1])
                agrees = right[row, node[path]] == goes_right[path]
                feature = forest.tests.feature[node[path]]
                items = groups.items[groups.item_ptr[leaf] : groups.item_ptr[leaf + 1]].tolist()
                assert {slot[item[SLOT]] for item in items} == set(feature)
                for item in items:
                    care = item[CARE] or 1 << item[SLOT]
                    want = item[WANT] if item[CARE] else care
                    holds = bool(np.all(agrees[feature == slot[item[SLOT]]]))
                    assert ((pattern & care) == want) == holds
