"""TAO from data: a start, passes, pruning, and the native tree that comes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bitvec.converters.native.tao import TAO, from_tao
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError
from bitvec.learners.sizes import require_moderate
from bitvec.learners.tao.idle_nodes import prune as pruned_tree
from bitvec.learners.tao.losses import LabelLoss, Loss, SquaredLoss
from bitvec.learners.tao.node_step import NodeStatistics, Step
from bitvec.learners.tao.optimise import MAX_ITER, Iteration, Optimised, Passes, Progress, optimise
from bitvec.learners.tao.refinement_targets import centre_of, values
from bitvec.learners.tao.starts import start_tree, with_unit_margins
from bitvec.learners.tao.tao_options import costs, svm_of, weights
from bitvec.learners.tao.training_rows import Rows, make_rows, route
from bitvec.learners.tao.tree import NodeKind, Tree
from bitvec.runtime.predict.threads import effective_jobs

DEEPEST = 20
"""A complete tree of more levels would have millions of nodes."""
OBLIQUE_TOL = 5e-4
"""Default `tol` of oblique trees: a twentieth of a percent of the weight of all rows."""
FIRST_LOOK = 2
"""Passes after which random starts are compared: one that collapses has done so by then."""


@dataclass(frozen=True, slots=True, eq=False)
class TAOResult:
    """Result of `fit_tao`.

    Parameters
    ----------
    tree : TAO
        The native tree, for `bitvec.convert`. A classifier's leaf holds 1 for its label.
    objective : float
        Of the tree before pruning, which changes no training row's prediction.
    history : tuple of Iteration
    nodes : NodeStatistics
        Of the last pass, by the nodes of `optimised`.
    optimised : Tree
        Before pruning.
    leaf_weight : float64, (n_leaves, n_classes), or (n_leaves, 1) for values
        The weight of training rows at each leaf of `tree`, by class.
    mean_operations : float
        Multiplications and comparisons of a training row on its way, on average.
    """

    tree: TAO
    objective: float
    history: tuple[Iteration, ...]
    nodes: NodeStatistics
    optimised: Tree
    leaf_weight: Float64[Array, "n_leaves n_columns"]
    mean_operations: float

    @property
    def n_iter(self) -> int:
        """Passes that were made."""
        return len(self.history) - 1

    @property
    def n_weights(self) -> int:
        """Weights of nodes that are not 0."""
        return int(self.tree.W.weight.size)

    @property
    def n_parameters(self) -> int:
        """Weights of nodes that are not 0, thresholds, and numbers of leaves: one for a label."""
        tree = self.tree
        per_leaf = 1 if tree.classes is not None else tree.V.shape[1]
        linear = 0 if tree.U is None else int(np.count_nonzero(tree.U))
        return self.n_weights + tree.n_nodes + per_leaf * tree.n_leaves + linear

    def __repr__(self) -> str:
        """Return the objective and the size."""
        return (
            f"TAOResult({self.tree.n_nodes} nodes, {self.n_weights} weights, objective "
            f"{self.history[0].objective:.6g} -> {self.objective:.6g} in {self.n_iter} passes)"
        )


def fit_tao(
    X: Any,
    y: Any,
    *,
    depth: int = 4,
    oblique: bool = False,
    start: Any = "cart",
    sample_weight: Any = None,
    n_classes: int | None = None,
    cost: Any = None,
    leaves: Literal["constant", "linear"] = "constant",
    ridge: float = 1e-3,
    penalty: Literal["l1", "l2"] = "l2",
    C: float = 1.0,
    lambda_: float = 1.0,
    monotone: bool = False,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
    prune: bool = True,
    restarts: int = 5,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> TAOResult:
    """Fit one tree by tree alternating optimisation.

    The objective is the sum over rows of weight times loss, cost[y, label] of class numbers or
    squared error of values, plus, for oblique trees with penalty "l1", lambda_ times the sum over
    nodes of Σ |w_j| · s_j, with s_j the standard deviation of column j.

    Parameters
    ----------
    X : numbers, (n_rows, n_features)
        Finite. float32 stays so, and all else becomes float64; the tree compares in that dtype.
    y : integers, (n_rows,), or floats, (n_rows,) or (n_rows, n_outputs)
        Class numbers from 0, or values.
    depth : int
        Of the start, unless that is a tree.
    oblique : bool
        Tests of all columns, w · x + bias > 0, instead of one.
    start : "cart", "oblique_cart", "random", TAO, Forest or fitted scikit-learn tree
        `oblique_cart` takes the best of coordinate descents from `restarts` random hyperplanes and
        the best axis-aligned one; "random" is complete, its tests through random rows.
        A random oblique tree may come to few leaves: the best of `restarts` of them is kept.
    sample_weight : (n_rows,), optional
    n_classes : int, optional
        One more than the largest class number if not given.
    cost : (n_classes, n_classes), optional
        Of a row of class k that is labelled l: cost[k, l], not negative; 0/1 loss if not given.
    leaves : "constant" or "linear"
        Linear leaves, V + U x, are ridge regressions; of values only.
    ridge : float
        Times the squared weights of standardised columns, of linear leaves.
    penalty : "l1" or "l2"
        Of the support vector machines that stand in for the reduced problems of oblique nodes.
    C : float
        Of "l2": what squared hinges count, for weights of mean 1.
    lambda_ : float
        Of "l1", see above.
    monotone : bool
        Whether the test of an oblique node must not raise the reduced objective. By default it is
        whatever its machine finds, as in the supplement of the paper, which as a rule ends at
        better trees; the best one on the way is returned, or with "l1" the best one after a pass.
        Where none is better than the start, passes from the start follow that never raise it.
        Axis-aligned nodes are solved exactly and always lower the objective.
    tol : float, optional
        Passes end where one lowers the objective, divided by the sum of weights, by less; 5e-4 for
        oblique trees if not given, and 0 for others: until nothing changes.
    max_iter : int
        Passes at most.
    prune : bool
        Remove what decides nothing for the training rows.
    restarts : int
        Random hyperplanes at each node of "oblique_cart". Of "random", starts that get two passes;
        the first of least objective is fitted in full.
    seed : int
    n_jobs : int, optional
        Threads; the result does not depend on it.
    progress : callable, optional
        Called with an `Iteration` after each pass.

    Returns
    -------
    TAOResult

    Raises
    ------
    InputError
        If X, y or an option does not fit.
    MissingLibraryError
        If scikit-learn is needed, for start "cart" or penalty "l1", and is not installed.

    Notes
    -----
    "Alternating optimization of decision trees, with application to learning sparse oblique trees"
    (Carreira-Perpiñán and Tavallali, 2018) and its supplement.

    Examples
    --------
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> fit_tao(X, [0, 0, 0, 1], depth=2).tree.predict(X).tolist()
    [0, 0, 0, 1]
    """
    Z = _matrix(X)
    target, n_classes = _target(y, len(Z), n_classes)
    weight = weights(sample_weight, len(Z))
    counted = weight > 0
    if not counted.all():  # a row of weight 0 is as good as none
        Z, target, weight = np.ascontiguousarray(Z[counted]), target[counted], weight[counted]
    if leaves not in ("constant", "linear") or (leaves == "linear" and n_classes is not None):
        raise InputError(
            f'`leaves` must be "constant", or "linear" for values, got {leaves!r} for '
            f"{'values' if n_classes is None else 'class numbers'}."
        )
    if options.whole("depth", depth, least=0) > DEEPEST:
        raise InputError(f"`depth` must lie in 0 ... {DEEPEST}, got {depth}.")
    for name, value in {"oblique": oblique, "monotone": monotone, "prune": prune}.items():
        options.flag(name, value)
    ridge = options.positive("ridge", ridge, or_zero=True)
    lambda_ = options.positive("lambda_", lambda_)
    options.whole("max_iter", max_iter, least=0)
    options.whole("restarts", restarts)
    options.whole("seed", seed, least=0)
    if tol is None:
        tol = OBLIQUE_TOL if oblique else 0.0
    options.positive("tol", tol, or_zero=True)
    if oblique or leaves == "linear":
        require_moderate("X", Z)
    centre = np.zeros(1)
    if n_classes is None:
        centre = centre_of(target, weight)
        target = target - centre
    X64 = Z.astype(np.float64) if leaves == "linear" else None
    rows = make_rows(Z, weight, n_threads=effective_jobs(n_jobs), is_sorted=not oblique, X=X64)
    step = Step(
        is_oblique=oblique,
        monotone=monotone,
        svm=svm_of(penalty, C, lambda_, seed),
        penalty=lambda_ if oblique and penalty == "l1" else 0.0,
    )

    def fitted(own_seed: int, passes: int, told: Progress | None) -> tuple[Optimised, Loss]:
        tree = start_tree(
            start,
            rows,
            target,
            weight,
            n_classes,
            depth=depth,
            is_oblique=oblique,
            restarts=restarts,
            seed=own_seed,
        )
        if not isinstance(start, str):  # its leaves are in the units of y
            tree = replace(tree, V=tree.V - centre)
        if penalty == "l1" and not isinstance(start, Tree):
            tree = with_unit_margins(tree, rows)
        loss, tree = _loss(tree, target, weight, n_classes, cost, leaves, ridge, Z.shape[1])
        every = np.ones(tree.n_nodes, bool)
        return optimise(tree, rows, loss, step, Passes(every, None, tol, passes, told)), loss

    if isinstance(start, str) and start == "random" and restarts > 1:
        looks = min(FIRST_LOOK, max_iter)
        seed = min(
            _seeds(seed, restarts), key=lambda own_seed: fitted(own_seed, looks, None)[0].objective
        )
    done, loss = fitted(seed, max_iter, progress)
    final = pruned_tree(done.tree, rows) if prune else done.tree
    return TAOResult(
        native(replace(final, V=final.V + centre), n_classes),
        done.objective,
        done.history,
        done.nodes,
        replace(done.tree, V=done.tree.V + centre),
        *_measures(final, rows, loss),
    )


def _seeds(seed: int, n: int) -> list[int]:
    """Return the seeds of several starts, the given one first."""
    others = np.random.default_rng(seed).integers(2**63 - 1, size=n - 1)
    return [seed, *others.tolist()]


def _matrix(X: Any) -> Array:
    Z = np.asarray(X)
    if Z.ndim != 2 or Z.dtype.kind not in "biuf" or 0 in Z.shape:
        raise InputError(
            f"`X` must be numbers of shape (n_rows, n_features), got {Z.dtype} of shape {Z.shape}."
        )
    Z = np.ascontiguousarray(Z, np.float32 if Z.dtype == np.float32 else np.float64)
    if not np.all(np.isfinite(Z)):
        raise InputError(
            "`X` must be finite, got NaN or infinity: fill or drop such rows, or refine a tree of "
            "a library that reads them with tao_refine."
        )
    return Z


def _target(y: Any, n_rows: int, n_classes: int | None) -> tuple[Array, int | None]:
    """Return class numbers and their number, or values and None."""
    array = np.asarray(y)
    if array.ndim not in (1, 2) or len(array) != n_rows:
        raise InputError(
            f"`y` must have one entry for each of the {n_rows} rows of X, got shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        if n_classes is not None:
            raise InputError(f"`y` must be class numbers, integers from 0, got {array.dtype}.")
        return values(array), None
    largest = int(array.max())
    n_classes = largest + 1 if n_classes is None else options.whole("n_classes", n_classes)
    if array.ndim != 1 or array.min() < 0 or largest >= n_classes:
        raise InputError(
            f"`y` must be one class number of 0 ... {n_classes - 1} for each row, got "
            f"{int(array.min())} ... {largest} of shape {array.shape}: pass floats for values."
        )
    return array.astype(np.int64), max(n_classes, 2)


def _loss(
    tree: Tree,
    target: Array,
    weight: Array,
    n_classes: int | None,
    cost: Any,
    leaves: str,
    ridge: float,
    n_features: int,
) -> tuple[Loss, Tree]:
    """Return the loss, and the tree with leaves of its kind."""
    if n_classes is None:
        if cost is not None:
            raise InputError("`cost` must be of class numbers, got it for values: leave it out.")
        U = tree.U
        if leaves == "linear" and U is None:
            U = np.zeros((tree.n_leaves, target.shape[1], n_features))
        elif leaves == "constant":
            U = None
        return SquaredLoss(target, weight, ridge), replace(tree, U=U)
    labels = np.eye(n_classes)[tree.V.argmax(axis=1)]
    return LabelLoss(target, weight, costs(cost, n_classes)), replace(tree, V=labels, U=None)


def native(tree: Tree, n_classes: int | None) -> TAO:
    """Return the native tree of one whose tests are `>` and read finite rows alone.

    An axis-aligned node that sends what lies above its threshold left swaps its children.
    """
    left = np.where(tree.above, tree.left, tree.right)
    right = np.where(tree.above, tree.right, tree.left)
    given: dict[str, Any] = {"left": left, "right": right, "V": tree.V, "U": tree.U}
    if n_classes is not None:
        given["classes"] = np.arange(n_classes)
    if np.any(tree.kind == NodeKind.OBLIQUE):
        return from_tao(W=tree.W, bias=-tree.threshold, **given)
    return from_tao(
        feature=tree.feature, threshold=tree.threshold, n_features=tree.n_features, **given
    )


def _measures(tree: Tree, rows: Rows, loss: Loss) -> tuple[Array, float]:
    """Return the weight at each leaf, by class, and the mean operations of a row."""
    paths = route(rows, tree)
    leaf = ~paths[-1]
    if isinstance(loss, LabelLoss):
        leaf_weight = loss.counts(leaf, tree.n_leaves)
    else:
        leaf_weight = np.bincount(leaf, loss.weight, tree.n_leaves)[:, None]
    cost = np.ones(tree.n_nodes)
    if len(tree.W):
        cost += np.where(tree.kind == NodeKind.OBLIQUE, np.count_nonzero(tree.W, axis=1), 0)
    on_path = paths[paths >= 0]
    return leaf_weight, float(cost[on_path].sum() / rows.n_rows)
