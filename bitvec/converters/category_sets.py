"""Lists of category codes, node by node, as the bits of set nodes, and back.

-1, which `cat.codes` of a pandas column has for a missing category, is in a column of categories:

============ ===================================================================
xgboost      in no set: it goes left, and not where a missing value goes
LightGBM     missing: it goes where NaN goes at a test of categories
scikit-learn no category of a HistGradientBoosting model, and so missing
CatBoost     the category "-1", like any other whole number
treelite     in no list: it goes with all that is not listed
YDF          missing to YDF; to the forest no code, as 99 may be: put NaN there
============ ===================================================================
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import WORD_BITS, CodeRule, NodeTests
from bitvec.core.shape_annotations import Bool, Int64, UInt32
from bitvec.errors import UnsupportedModelError

SET_WORDS_LIMIT = 1 << 26
"""Words that the sets of one model may take; a few huge codes would ask for more."""


def pack(
    code: Int64[Array, " n_codes"], node: Int64[Array, " n_codes"], n_nodes: int
) -> tuple[Int64[Array, " n_nodes_plus_1"], UInt32[Array, " n_words"]]:
    """Return `set_ptr` and `set_words` from pairs of a code and the node where it goes right.

    Parameters
    ----------
    code : int64, (n_codes,)
        Not negative; a node's codes in any order, repeated or not.
    node : int64, (n_codes,)
        Below `n_nodes`.
    n_nodes : int

    Raises
    ------
    UnsupportedModelError
        If the sets would take more than `SET_WORDS_LIMIT` words.

    Examples
    --------
    >>> set_ptr, set_words = pack(np.array([33, 0, 3, 3]), np.array([2, 0, 0, 0]), 3)
    >>> set_ptr.tolist(), set_words.tolist()
    ([0, 1, 1, 3], [9, 0, 2])
    """
    highest = np.full(n_nodes, -1, np.int64)
    np.maximum.at(highest, node, code)
    set_ptr = np.concatenate([[0], np.cumsum(highest // WORD_BITS + 1)]).astype(np.int64)
    if set_ptr[-1] > SET_WORDS_LIMIT:
        raise UnsupportedModelError(
            f"category sets must take at most {SET_WORDS_LIMIT} words of {WORD_BITS} codes, got "
            f"{set_ptr[-1]}: number the categories 0, 1, 2, ... and train again."
        )
    set_words = np.zeros(int(set_ptr[-1]), np.uint32)
    bit = np.uint32(1) << (code % WORD_BITS).astype(np.uint32)
    np.bitwise_or.at(set_words, set_ptr[node] + code // WORD_BITS, bit)
    return set_ptr, set_words


def reads_floor(tests: NodeTests) -> Bool[Array, " n_nodes"]:
    """Tell the set nodes that answer as if they rounded a value down to its code.

    Truncation differs from it between -1 and 0 only, which it reads as code 0: no difference where
    code 0 goes the way of values that are no code.
    """
    in_range = np.diff(tests.set_ptr) > 0
    zero_right = tests.other_right.copy()
    zero_right[in_range] = tests.set_words[tests.set_ptr[:-1][in_range]] & np.uint32(1) == 1
    truncates = (tests.code_rule == CodeRule.TRUNCATE) & (zero_right == tests.other_right)
    return (tests.code_rule == CodeRule.FLOOR) | truncates


def right_codes(
    tests: NodeTests, turned: Bool[Array, " n_nodes"]
) -> tuple[Int64[Array, " n_codes"], Int64[Array, " n_codes"]]:
    """Return the codes in a set's range that go right, or left where `turned`, and their nodes.

    Nodes rise, and so do the codes of a node.
    """
    size = np.diff(tests.set_ptr)
    flipped = np.where(np.repeat(turned, size), ~tests.set_words, tests.set_words)
    filled = np.flatnonzero(flipped)
    bits = np.unpackbits(flipped[filled].astype("<u4").view(np.uint8), bitorder="little")
    which, bit = np.divmod(np.flatnonzero(bits), WORD_BITS)
    word = filled[which]
    node = np.repeat(np.arange(tests.n_nodes), size)[word]
    return (word - tests.set_ptr[node]) * WORD_BITS + bit, node
