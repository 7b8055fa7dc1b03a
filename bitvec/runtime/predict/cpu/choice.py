"""Choice of the kernel that runs a forest: a rule over costs that were measured.

The costs are cycles of one core for one row, on a Zen 5 processor whose AVX-512 was switched off
for the level portable; those of oblique tests and of `none` alone are of Zen 4. A kernel that
cannot hold the forest says so in its `unsupported_reason`; among the others the cheapest is taken.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import unique_integers
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.errors import InputError
from bitvec.runtime.predict.cpu.bins import forest_bins, oblique_bins
from bitvec.runtime.predict.cpu.bitvector import hybrid, oblivious
from bitvec.runtime.predict.cpu.bitvector.binned_trees import STEP
from bitvec.runtime.predict.cpu.bitvector.grouped_values import GROUP, LEAST_VECTOR, REGISTER
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.protocol import TreeKernel
from bitvec.runtime.predict.cpu.target import permuted_words, vectors
from bitvec.runtime.predict.cpu.traversal import mixed, paths

ONE_ROW = "onerow"
"""The kernel of few rows, which takes as many as are asked for where it is named."""
KERNELS = ("perfect", "chain", "oblivious", "hybrid", "single", "deep", "paths", "mixed")
"""Kernels for batches, by name."""

BITVECTOR = {
    "perfect": "Perfect",
    "hybrid": "Hybrid",
    "chain": "Chain",
    "oblivious": "Oblivious",
}
"""Kernels whose nodes read binned columns, and their classes."""

_CHAIN_NODE = {"avx512": 0.035, "portable": 0.055, "none": 0.12}
"""Cycles a node in trees of at most 256 leaves, by the level of vectors."""
_WIDE = {"avx512": 1.6, "portable": 2.0, "none": 2.0}
"""Factor of a node's cycles where a state takes two bytes."""
_MOST_NODES, _FAR_NODES = 200_000, 1.5
"""Nodes of which more do not fit the second cache, and the factor of their cycles."""
_PERFECT_NODE = {"avx512": (0.023, 0.024), "portable": (0.035, 0.049), "none": (0.1, 0.1)}
"""Cycles a node of a padded tree, and of one with more leaves than 64."""
_HYBRID = {"avx512": (4.0, 1.1), "portable": (5.0, 1.8), "none": (6.0, 2.0)}
"""Cycles of the leaf of a tree whose top is selected, up to 8 levels, and those that the square of
each further level adds: its leaves leave the caches."""
_OBLIVIOUS_LEVEL = {"avx512": 0.04, "portable": 0.05}
"""Cycles a level of a tree whose levels share tests, by the level of vectors."""
_OBLIVIOUS_VALUE: dict[float, float] = {6: 0.0, 8: 0.2, 16: 0.5}
"""Cycles that a leaf's value costs beyond one of a padded tree, with AVX-512, by depth."""
_OBLIVIOUS_PLANES = 8
"""The depth up to which leaf values of a tree are read into registers, for a step of rows."""
_OBLIVIOUS_REGISTER = 1.2
"""Cycles of a register of the values that are added together."""
_TREE = {"avx512": 0.2, "portable": 1.0, "none": 1.0}
"""Cycles that a tree of binned columns costs besides its nodes: its leaf is added."""
_VALUE = {"avx512": 0.25, "portable": 0.9, "none": 0.9}
"""Cycles of each further value of a leaf."""
_VALUE_BY_ROW = 0.9
"""Cycles of each further value of a leaf where rows walk to it."""
_FEW_VECTORS: dict[str, dict[float, float]] = {
    "avx512": {32: 1.6, 256: 3.2, np.inf: 1.25},
    "portable": {np.inf: 1.0},
    "none": {np.inf: 1.0},
}
"""Factor of a chain node's cycles in a small batch, by the level and a tree's leaves: few registers
hold its states, which wait for each other."""
_BIN = {16: 1.0, 8: 2.2, 0: 6.0}
"""Cycles a column whose values are binned, by the words that are looked up at once."""
_KEY, _MANY_KEYS = 3.0, 150
"""Cycles a column whose values are made keys, and of how many columns each costs twice as many: a
block has fewer rows then."""
_SET = {"perfect": 0.1, "chain": 0.03}
"""Cycles a set node, besides those of a node; of oblivious trees as of perfect, once a level."""
_DEEP_LEVEL = {1 << 20: 2.6, 4 << 20: 3.4, 8 << 20: 4.5, np.inf: 10.0}
"""Cycles a level of a tree that is walked, 16 rows in flight, by the bytes of all trees; of those
that do not fit the second cache more, the more columns the keys beside them have."""
_DEEP_TREE = 3.5
"""Cycles that the leaf of such a tree costs."""
_SINGLE_LEVEL = {1 << 20: 4.2, 3 << 20: 5.0, 5 << 20: 5.8, 8 << 20: 7.5, np.inf: 20.0}
"""Cycles a level where rows walk straight over X, 64 at a time, by the bytes of all trees."""
_SINGLE_TREE, _SINGLE_OUTPUT, _SINGLE_LINE = 0.8, 7.0, 3.5
"""Cycles of a tree there besides its levels, of an output, and of a cache line of a row."""
_LONG_ROW, _FAR = 768, 2.0
"""Bytes of a row of which 64 do not fit the first cache, and the factor of a level then."""
_MIXED_LEVEL = 40.0
"""Cycles a level where every node is evaluated on its own."""


COMPILED = (*BITVECTOR, "single", "paths")
"""Kernels whose batches are answered in a single compiled call."""
LONG_CALL = 25_000.0
"""Cycles of a batch by others, before its rows."""
LINE = 64
"""Bytes that memory is read by."""
COLD = 20
"""Rows by the kernel deep that cost as much as to fetch its trees, in a batch."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel's name, why it is the one, and the cycles that it takes for a row.

    Of these, `own` fall to each row of a batch however small; the others to a step of rows.
    """

    name: str
    why: str
    cycles: float
    own: float = 0.0


def _module(name: str) -> ModuleType:
    package = "bitvector" if name in BITVECTOR else "traversal"
    place = "few_rows.forest_rows" if name == ONE_ROW else f"{package}.{name}"
    return importlib.import_module(f"bitvec.runtime.predict.cpu.{place}")


def unsupported_reason(name: str, forest: Forest, *, counts: bool = True) -> str | None:
    """Return why a kernel cannot hold a forest, or None.

    Without `counts`, what would take as long as to pack the forest is left out.
    """
    module = _module(name)
    reason: str | None = module.unsupported_reason(forest)
    if reason is None and name in BITVECTOR:
        reason = leaf_tables.unsupported_reason(forest) or forest_bins.unsupported_reason(
            forest, counts=counts
        )
    return reason


SMALL = 128
"""Rows of a small batch."""
FEW = 16
"""Rows up to which a kernel that needs no binned columns may be the faster one."""


def pack(name: str, forest: Forest) -> TreeKernel:
    """Return a forest packed for a kernel that does not refuse it."""
    module = _module(name)
    if name in BITVECTOR:
        make = getattr(module, BITVECTOR[name])
        packed: TreeKernel = make(forest, forest_bins.bin_forest(forest))
    else:
        packed = module.pack(forest)
    return packed


def require_kernel(name: str, forest: Forest) -> Choice:
    """Return the kernel that was asked for by name.

    Raises
    ------
    InputError
        If there is no such kernel, or it cannot hold the forest.
    """
    names = (*KERNELS, ONE_ROW)
    if name not in names:
        raise InputError(
            f"`kernel` must be one of {', '.join(names)}, got {name!r}: leave it out to have the "
            "fastest."
        )
    reason = unsupported_reason(name, forest)
    if reason is not None:
        raise InputError(f"the kernel {name} cannot hold this forest: {reason}.")
    name = "deep" if name == ONE_ROW else name
    return Choice(name, "asked for", costs(forest)[name] or 0.0)


def choose(forest: Forest, *, small: bool = False, few: bool = False) -> Choice:
    """Return the cheapest kernel for batches of a forest, of `SMALL` rows, or of `FEW`.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> choose(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])).name
    'chain'
    """
    found = costs(forest, small=small or few)
    known = {name: cost for name, cost in found.items() if cost is not None}
    if few:  # binned columns are made and read for a whole step of rows
        known |= {name: known[name] * STEP / FEW for name in known if name in BITVECTOR}
    reasons: list[str] = []
    for name in sorted(known, key=lambda name: known[name]):
        reason = unsupported_reason(name, forest)
        if reason is None:
            least = f"about {known[name]:.0f} cycles a row"
            others = [
                f"{other} {known[other]:.0f}"
                for other in known
                if other != name and unsupported_reason(other, forest, counts=False) is None
            ]
            against = f", against {', '.join(others)}" if others else ""
            not_held = f"; {'; '.join(reasons)}" if reasons else ""
            own = _oblivious(forest)[1] if name == "oblivious" else 0.0
            return Choice(name, least + against + not_held, known[name], own)
        reasons.append(f"not {name}: {reason}")
    raise AssertionError("the kernel mixed holds every forest")


def costs(forest: Forest, *, small: bool = False) -> dict[str, float | None]:
    """Return estimated cycles a row of each kernel, for the trees alone; None where it has none."""
    B, level = forest.bitvectors, vectors()
    n_leaves = np.diff(B.leaf_ptr)
    most = int(n_leaves.max(initial=1))
    # Rows spread over leaves unevenly; the mean over leaves is what can be known without data.
    levels = tree_paths.levels(B)
    deepest = int(tree_paths.tree_depth(B).max(initial=1))
    node = _CHAIN_NODE[level] * (1 if most <= 256 else _WIDE[level])
    node *= _FAR_NODES if B.n_nodes > _MOST_NODES else 1.0
    node *= _of(_FEW_VECTORS[level], most) if small else 1.0
    one_hot = forest.tests.is_one_hot
    columns = unique_integers(forest.tests.feature[one_hot]).size
    # What every row costs before its trees: bins of columns, and margins of all nodes.
    binned = _BIN[permuted_words()] * columns + (
        0.0 if one_hot.all() else oblique_bins.cycles(forest)
    )
    values = B.n_trees * (forest.leaves.v.shape[1] - 1)
    added = binned + _TREE[level] * B.n_trees + _VALUE[level] * values
    sets = int(np.count_nonzero(forest.tests.kind == Kind.SET))
    path = None if paths.unsupported_reason(forest) else paths.cycles(forest)
    shared = None if oblivious.unsupported_reason(forest) else sum(_oblivious(forest))
    upper, whole = _PERFECT_NODE[level]
    place = upper if deepest <= 6 else whole
    padded = place * B.n_trees * (2.0 ** max(deepest, 3) - 1) if deepest <= 16 else None
    leaf, square = _HYBRID[level]
    tall = upper * (2**hybrid.TOP - 1) + leaf + square * max(deepest - 8, 0) ** 2
    keys = _KEY * columns * (1 + columns / _MANY_KEYS)
    n_bytes = walked_bytes(forest)
    walked = _of(_DEEP_LEVEL, n_bytes) * levels
    walked *= 1 + columns / _MANY_KEYS if n_bytes > 1 << 20 else 1.0
    deep = keys + walked + B.n_trees * _DEEP_TREE + values * _VALUE_BY_ROW
    call = LONG_CALL / SMALL if small else 0.0
    cold = COLD / SMALL * deep if small else 0.0
    return {
        "perfect": None if padded is None else added + padded + _SET["perfect"] * sets,
        "hybrid": binned + B.n_trees * tall + _SET["perfect"] * sets,
        "chain": added + node * B.n_nodes + _SET["chain"] * sets,
        "oblivious": None if shared is None else binned + shared,
        "single": single_cycles(forest),
        "deep": call + cold + deep,
        "paths": path,
        "mixed": call + max(_MIXED_LEVEL * levels, mixed.cycles(forest)),
    }


def _of(table: dict[float, float], size: float) -> float:
    """Return what a table says of a size: the first row that it does not exceed."""
    return next(cost for most, cost in table.items() if size <= most)


def walked_bytes(forest: Forest) -> int:
    """Return the bytes of all trees as rows walk them: two positions a leaf, of two words."""
    return 4 * forest.dtype.itemsize * forest.n_leaves


def single_cycles(forest: Forest) -> float:
    """Return the cycles of a row that walks straight over X, one of several in step."""
    row_bytes = forest.n_features * forest.dtype.itemsize
    lines = min(unique_integers(forest.tests.feature).size, row_bytes / LINE)
    # Where missing values go right, nodes hold a sign, and take twice as much.
    level = _of(_SINGLE_LEVEL, walked_bytes(forest) * (1 + bool(forest.tests.missing_right.any())))
    level *= _FAR if row_bytes > _LONG_ROW else 1.0
    values = forest.n_trees * (forest.leaves.v.shape[1] - 1)
    added = _SINGLE_TREE * forest.n_trees + _SINGLE_OUTPUT * forest.n_outputs
    walked = level * tree_paths.levels(forest.bitvectors)
    return walked + _SINGLE_LINE * lines + added + _VALUE_BY_ROW * values


def _oblivious(forest: Forest) -> tuple[float, float]:
    """Return the cycles of a row in oblivious trees: in a step of rows, and of each by itself."""
    width, value, own = forest.leaves.v.shape[1], _TREE[vectors()], 0.0
    B = forest.bitvectors
    depth = int(tree_paths.leaf_depth(B).max(initial=1))
    if width >= LEAST_VECTOR:
        own = _OBLIVIOUS_REGISTER * -(-width * forest.output.dtype.itemsize // REGISTER)
        value = 0.0
    elif vectors() == "avx512":
        value = width * (value + _of(_OBLIVIOUS_VALUE, depth))
        if depth > _OBLIVIOUS_PLANES:
            own, value = value, 0.0
    else:
        own, value = width * value, 0.0
    is_set = forest.tests.kind == Kind.SET
    n_sets = len(unique_integers(B.tree_of_node[is_set] * depth + tree_paths.node_depth(B)[is_set]))
    n_trees = -(-forest.n_trees // GROUP) * GROUP
    levels = _OBLIVIOUS_LEVEL[vectors()] * depth
    return n_trees * (levels + value) + _SET["perfect"] * n_sets, n_trees * own
