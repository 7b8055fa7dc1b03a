"""Forests that a header cannot hold exactly: a sentence for each."""

from __future__ import annotations

import re

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.ranks import Ranks

MOST_UNROLLED_NODES = 4096
MOST_UNROLLED_LEVELS = 100
"""C99 promises 127 levels of blocks within one another."""
MOST_LEAVES = 1 << 31
_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires restrict return
short signed sizeof static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
xor xor_eq
"""
KEYWORDS = frozenset(_WORDS.split())
"""Keywords of C99 and C++20."""


def require_options(form: str, name: str, thresholds: str, rows: str) -> None:
    """Refuse options that are none.

    Raises
    ------
    InputError
    """
    for option, value, known in (
        ("form", form, ("tables", "levels", "unrolled")),
        ("thresholds", thresholds, ("exact", "ranks")),
        ("input", rows, ("values", "bins")),
    ):
        if value not in known:
            raise InputError(f"`{option}` must be one of {known}, got {value!r}.")
    if thresholds == "ranks" and (form == "levels" or rows == "bins"):
        what = "the form levels" if form == "levels" else "rows of bins"
        raise InputError(
            f"`thresholds` must be left out with {what}, got ranks: its nodes compare what x holds."
        )
    # Small letters only, so that names in capitals differ where these do.
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", str(name)):
        raise InputError(
            "`name` must begin with a letter and hold small letters, digits and underscores, 41 "
            f"at most, got {name!r}."
        )
    if name in KEYWORDS:
        raise InputError(f"`name` must be no word of C or C++, got {name!r}: choose another.")


def require_ranked(forest: Forest, found: Ranks | None, thresholds: str) -> None:
    """Refuse ranks that no node would compare.

    Raises
    ------
    InputError
    """
    if thresholds == "ranks" and found is None and forest.n_nodes:
        raise InputError(
            "ranks must have a node that compares one column with a threshold, got "
            f'{forest.n_nodes} others: use thresholds="exact".'
        )


def require_exact(forest: Forest, form: str) -> None:
    """Refuse a forest that C cannot answer for bit for bit, or that is too large for the form.

    Raises
    ------
    UnsupportedModelError
    """
    tests = forest.tests
    margin = tests.kind == Kind.MARGIN
    several = np.diff(tests.node_ptr) > 1
    plain = (tests.offset == 0) & (tests.r == 1)
    curved = (tests.activation == Activation.SOFTPLUS) | ~plain
    bent = np.add.reduceat(curved, tests.node_ptr[:-1]) > 0 if forest.n_nodes else several
    n_polytopes = int(np.sum(margin & (several | bent)))
    reasons = (
        (forest.n_trees == 0, "at least one tree, got none: export a trained forest"),
        (
            forest.kernel is not None,
            "a forest that predicts hard, got a prediction kernel: drop it with "
            "dataclasses.replace(forest, kernel=None), or predict with bitvec",
        ),
        (
            forest.feature_map is not None,
            "a forest that reads X itself, got a feature map: compute the map in C on your own and "
            "export the forest with dataclasses.replace(forest, feature_map=None, ...)",
        ),
        (
            forest.output.aggregate is Aggregate.WEIGHTED_MEDIAN,
            "a sum, mean, minimum or maximum over trees, got a weighted median: "
            "predict with bitvec",
        ),
        (
            n_polytopes > 0,
            f"nodes that test one row of S without softplus, offset or weight, got {n_polytopes} "
            "polytope nodes, whose sums of several rows a header does not hold: export ONNX",
        ),
        (
            forest.n_leaves >= MOST_LEAVES,
            f"fewer than {MOST_LEAVES:,} leaves, got {forest.n_leaves:,}: predict with bitvec",
        ),
    )
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(f"a C header needs {sentence}.")
    if form == "unrolled":
        _require_small(forest)


def _require_small(forest: Forest) -> None:
    if forest.n_nodes > MOST_UNROLLED_NODES:
        raise UnsupportedModelError(
            f"the form `unrolled` needs {MOST_UNROLLED_NODES} nodes at most, got "
            f"{forest.n_nodes}: use the form `tables`."
        )
    deepest = int(tree_paths.leaf_depth(forest.bitvectors).max())
    if deepest > MOST_UNROLLED_LEVELS:
        raise UnsupportedModelError(
            f"the form `unrolled` needs trees of depth {MOST_UNROLLED_LEVELS} at most, got "
            f"{deepest}: use the form `tables`."
        )
