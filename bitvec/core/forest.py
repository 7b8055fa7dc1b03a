"""The Forest: tests (S, b), bitvectors (B), leaves (v) and what surrounds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bitvec.core import decision_rules, matrices, structure, tree_text
from bitvec.core.arrays import Array, ArrayLike, require, unique_integers
from bitvec.core.csr import CSR
from bitvec.core.expansion import ExpandedColumn, Expansion, TreeMatrices, expansion, numeric_rows
from bitvec.core.features import FeatureMap
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import FeatureKernel, require_kernels
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, NodeTests, Relation, from_rows
from bitvec.core.output import Output
from bitvec.core.shape_annotations import Float, Int8
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors
from bitvec.errors import InvalidForestError


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Forest:
    """Trees as four arrays: T(x) = v[argmax(B · σ(Sx − b))] for each tree (Eq. 5, Zhang 2021).

    Flat: the nodes of all trees stand one tree after the other, breadth first within a tree, and so
    do the leaves, left to right. `forest[i]` is the forest of tree i alone.

    Parameters
    ----------
    tests : NodeTests
        S and b.
    bitvectors : Bitvectors
        B.
    leaves : Leaves
        v.
    output : Output
    inputs : Inputs
    source : Source, optional
    feature_map : FeatureMap, optional
        S then reads φ(x) instead of x; leaves stay functions of x.
    kernel : tuple of FeatureKernel or None per feature, optional
        The prediction kernel; the forest predicts softly if and only if it has one.

    Raises
    ------
    InvalidForestError
        If the parts do not fit each other.
    """

    tests: NodeTests
    bitvectors: Bitvectors
    leaves: Leaves
    output: Output
    inputs: Inputs
    source: Source | None = None
    feature_map: FeatureMap | None = None
    kernel: tuple[FeatureKernel | None, ...] | None = None

    def __post_init__(self) -> None:
        B, tests, leaves, output = self.bitvectors, self.tests, self.leaves, self.output
        require(
            tests.n_nodes == B.n_nodes,
            f"tests and bitvectors must have as many nodes, got {tests.n_nodes} and {B.n_nodes}.",
        )
        require(
            leaves.n_leaves == B.n_leaves,
            f"v must have one row per leaf of B, got {leaves.n_leaves} for {B.n_leaves}.",
        )
        width = leaves.v.shape[1]
        if leaves.output is None:
            require(
                width == output.n_outputs,
                f"v must be {output.n_outputs} wide (one column per output), got {width}.",
            )
        else:
            require(
                int(leaves.output.max(initial=-1)) < output.n_outputs,
                f"`leaves.output` must be below {output.n_outputs}.",
            )
        output.require_trees(B.n_trees)
        self._check_columns()
        if self.source is not None:
            self.source.require_sizes(B.n_nodes, B.n_leaves)

    def _check_columns(self) -> None:
        has_entries = np.diff(self.tests.row_ptr) >= 1
        require(np.all(has_entries), "each row of S must have at least one entry.")
        n, n_columns = self.n_features, self.n_columns
        if self.feature_map is not None:
            require(
                self.feature_map.n_inputs == n,
                f"the feature map must read {n} columns, got {self.feature_map.n_inputs}.",
            )
        require(
            int(self.tests.column.max(initial=-1)) < n_columns,
            f"`column` must be below the {n_columns} columns that S reads.",
        )
        require(
            not self.inputs.category_hashes or self.dtype == np.float64,
            f"a forest that reads hashes of categories must compare in float64, got {self.dtype}.",
        )
        linear = self.leaves.linear
        require(
            linear is None or int(linear.column.max(initial=-1)) < n,
            f"`linear.column` must be below {n}.",
        )
        if self.kernel is not None:
            used = unique_integers(self.tests.feature[self.tests.kind == Kind.KERNEL])
            require_kernels(self.kernel, n_columns, used)
            require(used.size or not self.n_nodes, "`kernel` needs kernel nodes, got none.")

    @classmethod
    def from_matrices(
        cls,
        S: ArrayLike,
        b: ArrayLike,
        B: ArrayLike,
        v: ArrayLike,
        *,
        relation: Relation = Relation.GREATER,
    ) -> Forest:
        """Build a forest of one tree from the paper's four arrays.

        Parameters
        ----------
        S : numbers, (n_nodes, n_features)
            Any real rows; computed in float64.
        b : numbers, (n_nodes,)
        B : 0/1, (n_leaves, n_nodes)
            Columns in breadth-first order.
        v : numbers, (n_leaves,) or (n_leaves, n_outputs)

        Raises
        ------
        InvalidForestError
            If B is not the matrix of a binary tree, the shapes do not fit, or an array does not
            hold numbers.

        Examples
        --------
        >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
        >>> stump.b.tolist(), stump.v.ravel().tolist()
        ([0.5], [10.0, 20.0])
        """
        try:
            S, b, v = (np.array(a, np.float64) for a in (S, b, v))
        except (TypeError, ValueError) as error:
            raise InvalidForestError(f"S, b and v must hold numbers, got: {error}.") from None
        require(S.ndim == 2, f"S must have two axes (nodes, features), got shape {S.shape}.")
        require(b.shape == S.shape[:1], f"b must have one value per row of S, got shape {b.shape}.")
        require(v.ndim in (1, 2), f"v must have one or two axes, got shape {v.shape}.")
        v = v.reshape(v.shape[0], -1)
        reads = S != 0
        reads[~reads.any(axis=1), :1] = True  # a zero row still needs an entry to be a row
        node, column = np.nonzero(reads)
        row_ptr = np.searchsorted(node, np.arange(len(S) + 1))
        tests = from_rows(row_ptr, column, S[node, column], b, relation=relation)
        output, inputs = Output(v.shape[1], np.dtype(np.float64)), Inputs(S.shape[1])
        return Forest(tests, matrices.from_dense(np.asarray(B)), Leaves(v), output, inputs)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.bitvectors.n_trees

    @property
    def n_nodes(self) -> int:
        """Number of internal nodes of all trees."""
        return self.bitvectors.n_nodes

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return self.bitvectors.n_leaves

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.inputs.n_features

    @property
    def n_columns(self) -> int:
        """Columns of X, or of the feature map where there is one."""
        return self.n_features if self.feature_map is None else self.feature_map.n_features

    @property
    def n_outputs(self) -> int:
        """Outputs of the raw score."""
        return self.output.n_outputs

    @property
    def dtype(self) -> np.dtype:
        """The dtype to which X is cast, and in which it is compared."""
        return self.tests.dtype

    def _expansion(self) -> Expansion:
        require(
            self.kernel is None,
            "S, b and B decide alone in a forest without a prediction kernel only, got one with "
            "it: its leaves are weighed by `forest.kernel`; take kernel=None for hard trees.",
        )
        return expansion(self.tests, self.n_columns, self.inputs.missing_sentinel)

    def expand(self, X: ArrayLike) -> Float[Array, "batch n_expanded"]:
        """Return φ(X), the finite columns from which S, b and B decide alone.

        For each tree, finite, infinite and missing values alike, the exit leaf is the first
        maximum of B · (S φ(x) > b).

        Parameters
        ----------
        X : numbers, (batch, n_features)
            Cast to the forest's dtype.

        Returns
        -------
        (batch, n_expanded)
            The columns that `expanded_columns` lists: first each column of X (or of the feature
            map), cut to finite numbers, then what missing values, categories and infinities need.

        Raises
        ------
        InvalidForestError
            If the forest needs more than S x > b: a polytope, whose node has several rows, or a
            prediction kernel; or more than 2**20 columns besides those of X.
        InputError
            If X is not numbers, (batch, n_features).

        Examples
        --------
        >>> tree = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
        >>> phi = tree.expand(np.array([[0.75, 3], [np.nan, np.inf]]))
        >>> h = tree.S @ phi.T > tree.b[:, None]
        >>> tree.v[(tree.B @ h).argmax(axis=0)].ravel().tolist()
        [20.0, 10.0]
        """
        rows = numeric_rows(X, self.dtype, self.n_features)
        return self._expansion()(rows if self.feature_map is None else self.feature_map(rows))

    @property
    def rows(self) -> CSR:
        """The rows of S as they are stored, (n_rows, n_columns): part of `tests`, not of S · φ."""
        tests = self.tests
        return CSR(tests.row_ptr, tests.column, tests.weight, self.n_columns)

    @property
    def expanded_columns(self) -> tuple[ExpandedColumn, ...]:
        """The columns of φ, which are those of S.

        Examples
        --------
        >>> Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]).expanded_columns
        (ExpandedColumn(x0, -max where missing), ExpandedColumn(x1, -max where missing))
        """
        return self._expansion().columns

    @property
    def S(self) -> CSR:
        """S of all trees, (n_nodes, n_expanded); its stored form is `tests`."""
        return self._expansion().S

    @property
    def b(self) -> Float[Array, " n_nodes"]:
        """b of all trees, with which S φ(x) is compared; the stored thresholds are `tests.b`."""
        return self._expansion().b

    @property
    def B(self) -> Int8[Array, "n_leaves n_nodes"]:
        """B of the forest's only tree, as a dense 0/1 matrix."""
        require(
            self.n_trees == 1,
            f"B is a matrix of one tree, got a forest of {self.n_trees}: use forest[i].B, or "
            "forest.matrices().",
        )
        return matrices.dense(self.bitvectors)

    @property
    def v(self) -> Float[Array, "n_leaves width"]:
        """The leaf vectors of all trees."""
        require(
            self.leaves.linear is None,
            "v holds leaves that are constant, got leaves that are linear functions of x: use "
            "forest.leaves.",
        )
        return self.leaves.v

    def matrices(self) -> Iterator[TreeMatrices]:
        """Yield S, b, B and v of each tree; all S read the same φ, that of `expand`.

        Examples
        --------
        >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
        >>> phi = stump.expand(np.array([[0.75, 3]]))
        >>> for S, b, B, v in stump.matrices():
        ...     print((B @ (S @ phi.T > b[:, None])).argmax(axis=0))
        [1]
        """
        whole, v, B = self._expansion(), self.v, self.bitvectors
        for tree in range(self.n_trees):
            nodes, leaf = (slice(int(p[tree]), int(p[tree + 1])) for p in (B.node_ptr, B.leaf_ptr))
            S, b = whole.S.part(nodes.start, nodes.stop), whole.b[nodes]
            yield TreeMatrices(S, b, matrices.dense(B.tree(tree)), v[leaf])

    def to_text(self, *, max_lines: int = tree_text.MAX_LINES) -> str:
        """Return all trees as text: their tests and leaves, line by line.

        Parameters
        ----------
        max_lines : int
            Lines of one tree; subtrees beyond them are counted.

        Examples
        --------
        >>> print(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]).to_text())
        tree 0
        x0 > 0.5 ?  [missing: no]
        ├─ no:  leaf 0: 10
        └─ yes: leaf 1: 20
        <BLANKLINE>
        """
        return tree_text.text(self, max_lines)

    def to_rules(self, *, merged: bool = False) -> decision_rules.Rules:
        """Return a rule for each leaf: one condition a column, of which all hold for its rows.

        Exactly one rule of each tree holds for each row, missing values, infinities and unseen
        categories included.

        Parameters
        ----------
        merged : bool
            Join the leaves of a tree for which the tree alone predicts one class, or one value,
            where they differ in one column only.

        Raises
        ------
        UnsupportedModelError
            If the forest has a prediction kernel, or rules of leaves that are linear in x are to
            be merged.

        Examples
        --------
        >>> print(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]).to_rules())
        tree 0
          if (x0 <= 0.5 or x0 is missing): 10 (leaf 0)
          if x0 > 0.5: 20 (leaf 1)
        """
        return decision_rules.rules_of(self, merged=merged)

    def __len__(self) -> int:
        return self.n_trees

    def __iter__(self) -> Iterator[Forest]:
        return (self[i] for i in range(self.n_trees))

    def __getitem__(self, tree: int | slice) -> Forest:
        if isinstance(tree, slice):
            return self.take(np.arange(self.n_trees)[tree])
        return self.take([tree])

    def take(self, trees: ArrayLike) -> Forest:
        """Return the forest of some trees, in this order, with the same base score.

        Parameters
        ----------
        trees : whole numbers, negative ones from the end on, or one truth value for each tree

        Raises
        ------
        IndexError
            If they are others.
        """
        index = np.asarray(trees)
        if index.dtype == np.bool_ and index.shape == (self.n_trees,):
            index = np.flatnonzero(index)
        whole = index.ndim == 1 and (index.dtype.kind in "iu" or not index.size)
        if not whole or np.any((index < -self.n_trees) | (index >= self.n_trees)):
            raise IndexError(
                f"trees must be whole numbers below {self.n_trees}, or {self.n_trees} truth "
                f"values, got {trees!r}."
            )
        index = index.astype(np.int64)
        index[index < 0] += self.n_trees
        B, order = structure.select(self.bitvectors, index)
        return replace(
            self,
            tests=self.tests.take(order.node),
            bitvectors=B,
            leaves=self.leaves.take(order.leaf),
            output=self.output.take(index),
            source=None if self.source is None else self.source.take(order.node, order.leaf),
        )

    def __repr__(self) -> str:
        plural = "tree" if self.n_trees == 1 else "trees"
        origin = f", from {self.source.library}" if self.source is not None else ""
        return (
            f"Forest({self.n_trees} {plural}, {self.n_nodes} nodes, {self.n_leaves} leaves, "
            f"{self.n_features} features -> {self.n_outputs} outputs, {self.dtype}{origin})"
        )


def require_forest(value: object) -> None:
    """Raise TypeError unless `value` is a Forest."""
    if not isinstance(value, Forest):
        given = type(value)
        remedy = {
            "SoftForest": "harden it with bitvec.from_torch",
            "Composition": "take its forests, one by one, from `composition.forests`",
            "DecisionMachine": "turn it into one with bitvec.core.machine.to_forest",
        }.get(given.__name__, "convert a model with bitvec.convert")
        raise TypeError(
            f"a bitvec Forest must be given, got {given.__module__}.{given.__qualname__}: "
            f"{remedy} first."
        )
