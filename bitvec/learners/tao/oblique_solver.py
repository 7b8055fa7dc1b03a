"""Oblique nodes: a linear support vector machine stands in for the reduced 0/1 problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float64, Int64
from bitvec.learners.tao.candidates import Candidate
from bitvec.learners.tao.newton import newton_svm
from bitvec.learners.tao.training_rows import Rows
from bitvec.learners.tao.tree import NodeKind, Tree
from bitvec.runtime.predict.cpu.kernel_arrays import constant

NEWTON_COLUMNS = 256
"""Columns up to which a Hessian is formed; LIBLINEAR takes over beyond."""


@dataclass(frozen=True, slots=True)
class Svm:
    """Options of the support vector machine.

    Parameters
    ----------
    penalty : "l1" or "l2"
    C : float
        Of "l2": the squared hinges, of care weights with mean 1, count C times.
    lambda_ : float
        Of "l1": what the sizes of the weights count; the hinges then count 1 / lambda_ times.
    tol : float
        Of Newton's method; LIBLINEAR has its own.
    max_iter : int
    seed : int
        Of LIBLINEAR, whose coordinate descent visits columns in random order.
    may_be_constant : bool
        Whether a node may lose all its weights and send every row one way.
    """

    penalty: str = "l2"
    C: float = 1.0
    lambda_: float = 0.0
    tol: float = 1e-4
    max_iter: int = 1000
    seed: int = 0
    may_be_constant: bool = True


def best_oblique_test(
    tree: Tree,
    rows: Rows,
    node: int,
    care: Int64[Array, " n"],
    target: Bool[Array, " n"],
    weight: Float64[Array, " n"],
    svm: Svm,
) -> Candidate | None:
    """Return the oblique test of the support vector machine on the care rows.

    Columns are standardised for the machine, and its weights folded back in float64. Rows of one
    target alone get a constant test, w = 0. None where there is no test to be had in the tree's
    dtype, or a constant one must not be.
    """
    if target.all() or not target.any():
        return _constant(tree, node, bool(target[0])) if svm.may_be_constant else None
    usable = np.isfinite(rows.Z[care]).all(axis=1)
    care, target, weight = care[usable], target[usable], weight[usable]
    if target.all() or not target.any():
        return None
    if svm.penalty == "l2":
        weight = weight / weight.mean()
    if svm.penalty == "l2" and tree.n_features <= NEWTON_COLUMNS:
        w, offset = _by_newton(tree, rows, node, care, target, weight, svm)
    else:
        from bitvec.learners.tao.sklearn_svm import by_liblinear

        x = (rows.Z[care] - rows.mean) / rows.scale
        w, offset = by_liblinear(
            x,
            target,
            weight,
            penalty=svm.penalty,
            C=svm.C if svm.penalty == "l2" else 1.0 / svm.lambda_,
            max_iter=svm.max_iter,
            seed=svm.seed,
        )
    return _folded(tree, rows, node, w, offset, svm)


def _by_newton(
    tree: Tree, rows: Rows, node: int, care: Array, target: Array, weight: Array, svm: Svm
) -> tuple[Array, float]:
    w = np.zeros(tree.n_features + 1)
    if tree.kind[node] == NodeKind.OBLIQUE:
        own = tree.W[node].astype(np.float64)
        size = float(np.linalg.norm(own * rows.scale))
        # The present direction, its margins of the size that hinges look at.
        if size > 0:
            w[:-1] = own * rows.scale / size
            w[-1] = (own @ rows.mean - float(tree.threshold[node])) / size
    newton_svm(
        rows.Z,
        constant(care),
        constant(rows.mean),
        constant(rows.scale),
        constant(np.where(target, 1.0, -1.0)),
        constant(weight),
        float(svm.C),
        float(svm.tol),
        min(svm.max_iter, 100),
        w,
    )
    return w[:-1], float(w[-1])


def _folded(
    tree: Tree, rows: Rows, node: int, w: Array, offset: float, svm: Svm
) -> Candidate | None:
    """Return the test of weights for standardised columns, in the tree's dtype."""
    if not np.any(w):
        return _constant(tree, node, offset > 0) if svm.may_be_constant else None
    folded = w / rows.scale
    threshold = float(folded @ rows.mean) - offset
    with np.errstate(over="ignore"):
        narrow, b = folded.astype(tree.dtype), tree.dtype.type(threshold)
    if not (np.all(np.isfinite(narrow)) and np.isfinite(b) and np.any(narrow)):
        return None
    return Candidate(NodeKind.OBLIQUE, 0, b, True, narrow)


def _constant(tree: Tree, node: int, right: bool) -> Candidate:
    threshold = tree.dtype.type(-1.0 if right else 1.0)
    return Candidate(NodeKind.OBLIQUE, 0, threshold, True, np.zeros(tree.n_features, tree.dtype))
