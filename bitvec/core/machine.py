"""Decision machines: T(x) = v[argmax(B · σ(Sx − b) − c)] with any real B, which need be no tree's.

A machine begins as a forest and keeps its tests, leaves, output and inputs; its B and c are numbers
like any other, and each leaf is a prototype that h is compared with by inner product (Eq. 7, Zhang
2021). Where a tree's B counts in whole numbers, a machine's B adds real ones, and the last place of
a sum would depend on the order in which a library adds. So the numbers of one tree lie on one grid:
all are multiples of a power of two so large that no sum of them is ever rounded. The scores are
then exact in the dtype of B, in any order, in any library, and so are their ties.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bitvec.core import exact_sums, matrices, reference, tree_paths
from bitvec.core.arrays import FLOATS, Array, ranges, read_only, require, require_offsets
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest, require_forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import NodeTests
from bitvec.core.output import Output
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError


@dataclass(frozen=True, slots=True, eq=False)
class DecisionMachine:
    """A forest whose B is real: prediction v[first argmax of B · h − c], h in {0, 1}, per tree.

    "Tree" names one block of B with its tests and leaves, though it need not be one any more. A
    block of k leaves has k − 1 tests, as in the tree that it comes from.

    Parameters
    ----------
    tests : NodeTests
        S and b, as in a Forest.
    leaf_ptr : int64, (n_trees + 1,)
        Where each tree's leaves begin.
    B : F, (sum of n_leaves · n_nodes over trees,)
        The blocks, (n_leaves, n_nodes) each, row by row, one tree after the other; finite. F is
        float32 or float64, the dtype of the scores.
    c : F, (n_leaves,)
        Subtracted from each leaf's score; finite.
    leaves : Leaves
    output : Output
    inputs : Inputs
    source : Source, optional
    feature_map : FeatureMap, optional

    Attributes
    ----------
    frame : Forest
        The same parts around chains in the place of B: for what does not look at B.

    Raises
    ------
    InvalidForestError
        If the parts do not fit each other, or the numbers of a tree lie on no grid on which their
        sums are exact: round them with `on_grid`.

    Notes
    -----
    Eq. (7), Zhang, "Yet Another Representation of Binary Decision Trees" (2021).
    """

    tests: NodeTests
    leaf_ptr: Int64[Array, " n_trees_plus_1"]
    B: Float[Array, " n_elements"]
    c: Float[Array, " n_leaves"]
    leaves: Leaves
    output: Output
    inputs: Inputs
    source: Source | None = None
    feature_map: FeatureMap | None = None
    frame: Forest = field(init=False, repr=False)

    def __post_init__(self) -> None:
        dtype = np.asarray(self.B).dtype
        require(dtype in FLOATS, f"`B` must have dtype float32 or float64, got {dtype}.")
        leaf_ptr = read_only("leaf_ptr", self.leaf_ptr, np.int64, (None,))
        require(leaf_ptr.size >= 1, "`leaf_ptr` must hold at least its first 0, got no elements.")
        require_offsets("leaf_ptr", leaf_ptr, int(leaf_ptr[-1]))
        # Before anything is as large as what `leaf_ptr` claims.
        require(
            int(leaf_ptr[-1]) - (leaf_ptr.size - 1) == self.tests.n_nodes,
            f"a block of k leaves must have k − 1 tests, got {int(leaf_ptr[-1])} leaves in "
            f"{leaf_ptr.size - 1} blocks for {self.tests.n_nodes} tests.",
        )
        put = object.__setattr__
        put(self, "leaf_ptr", leaf_ptr)
        around = self.leaves, self.output, self.inputs, self.source, self.feature_map
        put(self, "frame", Forest(self.tests, chains(leaf_ptr), *around))
        put(self, "B", read_only("B", self.B, dtype, (int(block_ptr(leaf_ptr)[-1]),)))
        put(self, "c", read_only("c", self.c, dtype, (int(leaf_ptr[-1]),)))
        require(np.all(np.isfinite(self.B)), "`B` must be finite.")
        require(np.all(np.isfinite(self.c)), "`c` must be finite.")
        for tree, (block, c) in enumerate(_blocks(self.B, self.c, leaf_ptr)):
            require(
                exact_sums.is_exact(block, c),
                f"the numbers of B and c must be multiples of one power of two on which sums are "
                f"exact in {dtype}, got others in tree {tree}: round them with "
                "bitvec.core.machine.on_grid.",
            )

    @property
    def n_trees(self) -> int:
        """Number of blocks of B."""
        return self.leaf_ptr.size - 1

    @property
    def n_nodes(self) -> int:
        """Number of tests."""
        return self.tests.n_nodes

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(self.leaf_ptr[-1])

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.inputs.n_features

    def block(self, tree: int) -> tuple[Float[Array, "n_rows n_columns"], Float[Array, " n_rows"]]:
        """Return B, (n_leaves, n_nodes), and c, (n_leaves,), of one tree."""
        if not 0 <= tree < self.n_trees:
            raise IndexError(f"tree must be below {self.n_trees}, got {tree}.")
        ends, start = self.leaf_ptr[tree : tree + 2], block_ptr(self.leaf_ptr)[tree]
        return next(_blocks(self.B[start:], self.c[ends[0] :], ends - ends[0]))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> DecisionMachine:
        """Read a machine from a file that `save` wrote.

        Raises
        ------
        FileFormatError
            If the file is truncated, damaged, of another kind, or made by a newer bitvec; that of
            a forest is read by `bitvec.load`.
        OSError
            If there is no such file, or it cannot be read.
        """
        from bitvec.files import load_machine  # a room above, which imports this class

        return load_machine(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine to one `.safetensors` file, as `bitvec.save` writes a forest.

        Raises
        ------
        UnsupportedModelError
            If its feature map is not one of `bitvec.core.feature_maps`, its metadata are not JSON,
            or names, categories, classes and metadata do not fit in 32 MiB.
        OSError
            If the path cannot be written; a file that was there is then still whole.

        Examples
        --------
        >>> import tempfile
        >>> machine = from_forest(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     machine.save(f"{folder}/machine.safetensors")
        ...     DecisionMachine.load(f"{folder}/machine.safetensors")
        DecisionMachine(1 block, 1 tests, 2 leaves, 2 features -> 1 outputs, B in float64)
        """
        from bitvec.files import save

        save(self, path)

    def __repr__(self) -> str:
        plural = "block" if self.n_trees == 1 else "blocks"
        return (
            f"DecisionMachine({self.n_trees} {plural}, {self.n_nodes} tests, {self.n_leaves} "
            f"leaves, {self.n_features} features -> {self.output.n_outputs} outputs, "
            f"B in {self.B.dtype})"
        )


def block_ptr(leaf_ptr: Int64[Array, " n_trees_plus_1"]) -> Int64[Array, " n_trees_plus_1"]:
    """Return where each tree's block begins in a machine's flat B.

    >>> block_ptr(np.array([0, 3, 4, 6])).tolist()
    [0, 6, 6, 8]
    """
    n_leaves = np.diff(leaf_ptr)
    return np.concatenate([[0], np.cumsum(n_leaves * (n_leaves - 1))]).astype(np.int64)


def chains(leaf_ptr: Int64[Array, " n_trees_plus_1"]) -> Bitvectors:
    """Return the bitvectors of one chain per tree, a stand-in where nothing looks at B.

    Raises
    ------
    InvalidForestError
        If a tree has no leaf.
    """
    count = np.diff(leaf_ptr)
    require(np.all(count >= 1), "each tree must have at least one leaf: see `leaf_ptr`.")
    lo = ranges(np.zeros(len(count), np.int64), count - 1)
    hi = np.repeat(count, count - 1)
    return Bitvectors(lo.astype(np.int32), (lo + 1).astype(np.int32), hi.astype(np.int32), leaf_ptr)


def _blocks(B: Array, c: Array, leaf_ptr: Array) -> Iterator[tuple[Array, Array]]:
    start = block_ptr(leaf_ptr)
    for tree in range(leaf_ptr.size - 1):
        first, last = int(leaf_ptr[tree]), int(leaf_ptr[tree + 1])
        flat = B[int(start[tree]) : int(start[tree + 1])]
        yield flat.reshape(last - first, last - first - 1), c[first:last]


def on_grid(
    B: Float[Array, " n_elements"],
    c: Float[Array, " n_leaves"],
    leaf_ptr: Int64[Array, " n_trees_plus_1"],
) -> tuple[Float[Array, " n_elements"], Float[Array, " n_leaves"]]:
    """Round B and c, tree by tree, to grids on which scores are exact.

    The step is a power of two, at most 2**-22 (float32) or 2**-51 (float64) times the largest sum
    of `|B|` and `|c|` over a row. A tree whose numbers lie on such a grid already keeps its bits.

    Raises
    ------
    InvalidForestError
        If such a sum is not finite.

    Examples
    --------
    >>> B, c = on_grid(np.array([0.1, 1.0], np.float32), np.zeros(2, np.float32), np.array([0, 2]))
    >>> (B * 2**22).tolist()
    [419430.0, 4194304.0]
    """
    B, c = B.copy(), c.copy()
    for block, offset in _blocks(B, c, leaf_ptr):
        block[...], offset[...] = exact_sums.rounded(block, offset)
    return B, c


def scores(
    machine: DecisionMachine, h: Bool[Array, "batch n_nodes"]
) -> Float[Array, "batch n_leaves"]:
    """Return B · h − c, exact in the dtype of B."""
    total = np.empty((len(h), machine.n_leaves), machine.B.dtype)
    node_ptr = machine.frame.bitvectors.node_ptr
    for tree, (block, c) in enumerate(_blocks(machine.B, machine.c, machine.leaf_ptr)):
        part = h[:, node_ptr[tree] : node_ptr[tree + 1]].astype(machine.B.dtype)
        total[:, machine.leaf_ptr[tree] : machine.leaf_ptr[tree + 1]] = part @ block.T - c
    return total


def exit_leaves(machine: DecisionMachine, X: Array) -> Int64[Array, "batch n_trees"]:
    """Return the first argmax of B · σ(Sx − b) − c per row and tree, as leaf numbers within it."""
    Z = reference.columns(machine.frame, X)
    exits = np.zeros((len(Z), machine.n_trees), np.int64)
    step = max(1, reference.BLOCK // max(machine.n_leaves, 1))
    for start in range(0, len(Z), step):
        part = slice(start, start + step)
        score = scores(machine, reference.hard_tests(machine.frame, Z[part]))
        for tree in range(machine.n_trees):
            leaves = slice(int(machine.leaf_ptr[tree]), int(machine.leaf_ptr[tree + 1]))
            exits[part, tree] = score[:, leaves].argmax(axis=1)
    return exits


def raw(machine: DecisionMachine, X: Array) -> Float[Array, "batch n_outputs"]:
    """Return the raw score of every row, accumulated as the forest's output says."""
    with np.errstate(over="ignore", invalid="ignore"):
        X = np.asarray(X).astype(machine.tests.dtype, copy=False)
    return reference.accumulate(machine.frame, X, exit_leaves(machine, X))


def _ternary(B: Bitvectors) -> tuple[Array, Array]:
    D = matrices.ternary(B)
    return 2 * D, D.sum(axis=1, dtype=np.int64) + tree_paths.leaf_depth(B)


ENCODINGS: dict[str, Callable[[Bitvectors], tuple[Array, Array]]] = {
    "ternary": _ternary,
    "bitvector": lambda B: (matrices.dense(B), np.zeros(B.n_leaves)),
    "sign": lambda B: (2 * matrices.dense(B) - 1, np.zeros(B.n_leaves)),
}
"""Encodings of a tree as B and c: the decision vectors of Eq. (8), B = 2D, c = D · 1 + depth,
with D(2h − 1) − depth as the score, whose maximum 0 is unique; the bitvectors themselves; and the
sign rule of Eq. (7), ones for ones and −1 for zeros. The last two tie, and the first maximum is the
exit leaf."""


def from_forest(
    forest: Forest, encoding: str = "ternary", *, dtype: type | np.dtype = np.float64
) -> DecisionMachine:
    """Write a forest as a machine that exits in the same leaves for every row.

    Parameters
    ----------
    encoding : "ternary", "bitvector" or "sign"
    dtype : float32 or float64
        Of B, c and the scores.

    Raises
    ------
    InputError
        If the encoding is unknown.
    UnsupportedModelError
        If the forest has a prediction kernel, or its dense B would have more than 2**28 elements.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> machine = from_forest(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    >>> [part.tolist() for part in machine.block(0)]
    [[[-2.0], [2.0]], [0.0, 2.0]]
    >>> raw(machine, np.array([[0.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """
    require_forest(forest)
    if encoding not in ENCODINGS:
        raise InputError(
            f"`encoding` must be one of {', '.join(ENCODINGS)}, got {encoding!r}: choose one."
        )
    if forest.kernel is not None:
        raise UnsupportedModelError(
            "a machine answers hard, got a forest with a prediction kernel: pass "
            "dataclasses.replace(forest, kernel=None)."
        )
    bitvectors = forest.bitvectors
    size = int(block_ptr(bitvectors.leaf_ptr)[-1])
    if size > matrices.DENSE_LIMIT:
        raise UnsupportedModelError(
            f"a machine's B is dense and must have at most {matrices.DENSE_LIMIT} elements, got "
            f"{size}: choose some trees with forest.take, or smaller ones."
        )
    parts = [ENCODINGS[encoding](bitvectors.tree(tree)) for tree in range(forest.n_trees)]
    empty = np.zeros(0, dtype)
    return DecisionMachine(
        tests=forest.tests,
        leaf_ptr=bitvectors.leaf_ptr,
        B=np.concatenate([empty, *(block.astype(dtype).ravel() for block, _ in parts)]),
        c=np.concatenate([empty, *(c.astype(dtype) for _, c in parts)]),
        leaves=forest.leaves,
        output=forest.output,
        inputs=forest.inputs,
        source=forest.source,
        feature_map=forest.feature_map,
    )


def to_forest(machine: DecisionMachine) -> Forest:
    """Return the forest that a machine still is: each block must be one of a tree's encodings.

    Those are the ternary one, and by the sign rule any block whose ones stand as one positive
    constant and whose zeros as numbers that are not positive, with c = 0.

    Raises
    ------
    UnsupportedModelError
        If B has moved away from them: no tree is then known that exits in the same leaves.
    """
    parts = []
    for tree, block in enumerate(_blocks(machine.B, machine.c, machine.leaf_ptr)):
        found = _tree(*block)
        if found is None:
            raise UnsupportedModelError(
                "a machine can be read as a forest only while B and c are an encoding of its "
                f"trees, got others in tree {tree}, whose B has moved: keep the machine, or harden "
                "a SoftForest, whose B stays."
            )
        parts.append(found)
    none = np.zeros(0, np.int32)
    lo, mid, hi = (
        np.concatenate([none, *(getattr(part, name) for part in parts)])
        for name in ("lo", "mid", "hi")
    )
    return replace(machine.frame, bitvectors=Bitvectors(lo, mid, hi, machine.leaf_ptr))


def _tree(block: Array, c: Array) -> Bitvectors | None:
    if len(block) == 1:
        return matrices.from_dense(block)  # one leaf is the exit leaf whatever its c
    positive = block[block > 0]
    by_sign = not c.any() and bool(np.all(positive == positive[:1]))
    ones = block > 0 if by_sign else block >= 0
    try:
        found = matrices.from_dense(ones)
    except InvalidForestError:
        return None
    if by_sign:
        return found
    expected, offset = _ternary(found)
    return found if np.array_equal(block, expected) and np.array_equal(c, offset) else None
