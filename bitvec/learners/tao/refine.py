"""The trees of a Forest, from whatever library, refined by tree alternating optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest, require_forest
from bitvec.errors import InputError
from bitvec.learners.tao.forest_parts import Part, Setting, added, note, parts_of, refined
from bitvec.learners.tao.forest_trees import joined
from bitvec.learners.tao.node_step import NodeStatistics, Step, new_statistics, norms
from bitvec.learners.tao.optimise import MAX_ITER, Iteration, Progress
from bitvec.learners.tao.refinement_targets import codes_or_values, factors, link_of
from bitvec.learners.tao.score_losses import LOSSES, Link
from bitvec.learners.tao.tao_options import Choice, mask, svm_of, weights
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.threads import effective_jobs


@dataclass(frozen=True, slots=True, eq=False)
class RefineResult:
    """Result of `tao_refine`.

    Parameters
    ----------
    forest : Forest
        The one that went in, itself, where nothing was better.
    improved : bool
        Whether it is another one.
    loss : str
    start_objective, objective : float
        On the training rows, before and after; never more.
    history : tuple of Iteration
        The objective of the whole forest, at the start and after each round over its trees.
    nodes : NodeStatistics
        Of the nodes, in the order of the forest that went in, at their last pass.
    """

    forest: Forest
    improved: bool
    loss: str
    start_objective: float
    objective: float
    history: tuple[Iteration, ...]
    nodes: NodeStatistics

    def __repr__(self) -> str:
        """Return the objectives."""
        rounds = f"in {len(self.history) - 1} rounds"
        if self.improved:
            what = f"{self.loss} loss {self.start_objective:.6g} -> {self.objective:.6g}"
        else:
            what = f"forest unchanged: {self.loss} loss {self.objective:.6g} not lowered"
        return f"RefineResult({what} {rounds}, on the training rows)"


def tao_refine(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    loss: Literal["auto", "zero_one", "squared", "log_loss"] = "auto",
    oblique: bool = False,
    penalty: Literal["l1", "l2"] = "l2",
    C: float = 1.0,
    lambda_: float = 1.0,
    nodes: Any = None,
    leaves: Any = None,
    tol: float = 0.0,
    max_iter: int = MAX_ITER,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RefineResult:
    """Lower the training loss of a forest by moving the tests and leaves of its trees.

    Each tree in turn, the others fixed, takes a pass of node and leaf steps, none of which raises
    the loss of the whole forest on the training rows; rounds over the trees go on until one gains
    nothing. A forest keeps its trees' shapes, classes, inputs and output, and axis-aligned nodes
    stay axis-aligned unless `oblique`, so that `bitvec.export` writes it in its own format again.

    Parameters
    ----------
    forest : Forest
        Its answers are sums or means of trees, for one target of classes or for values.
    X : array, sparse matrix or data frame, (n_rows, n_features)
        Training rows.
    y : (n_rows,) or (n_rows, n_outputs)
        Labels of the forest's classes, or values.
    sample_weight : (n_rows,), optional
    loss : "auto", "zero_one", "squared" or "log_loss"
        "zero_one" counts wrong labels, "squared" squared errors of values or of class
        probabilities, "log_loss" minus the logarithm of the label's probability. By default the
        first for classifiers whose trees hold probabilities, the last for those of a sigmoid or
        softmax, and "squared" for values.
    oblique : bool
        Let axis-aligned nodes become oblique where that lowers the loss.
    penalty, C, lambda_
        Of oblique nodes; see `fit_tao`.
    nodes, leaves : bools or positions, optional
        The nodes and leaves that may move; all if not given. The rest come back bit for bit, as
        sets, equalities, polytopes and linear leaves do in any case.
    tol : float
        Rounds end where one lowers the objective, divided by the sum of weights, by less.
    max_iter : int
        Rounds over the trees.
    seed : int
    n_jobs : int, optional
        Threads; the result does not depend on it.
    progress : callable, optional
        Called with an `Iteration` after each round.

    Returns
    -------
    RefineResult

    Raises
    ------
    UnsupportedModelError
        If the forest predicts softly, aggregates otherwise, or has a post-transform or several
        targets that the loss is not defined for.
    InputError
        If X, y or an option does not fit.

    Notes
    -----
    Where what lies above a threshold is to go left, the two children change places; a missing
    value keeps going to the subtree it went to.

    What falls is the loss of the training rows: a forest that fits them well already may get worse
    on others. Hold rows out, refine in several strengths (fewer rounds, some of the nodes), and
    keep the best on those rows, the forest as it was among the candidates, as in the example.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import bitvec
    >>> X, y = load_iris(return_X_y=True)
    >>> fit, held = slice(0, None, 2), slice(1, None, 2)
    >>> cart = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[fit], y[fit])
    >>> tree = bitvec.convert(cart)
    >>> candidates = [tree]
    >>> for rounds in (1, 14):
    ...     candidates.append(tao_refine(tree, X[fit], y[fit], max_iter=rounds).forest)
    >>> right = [sum(bitvec.compile(one).predict(X[held]) == y[held]) for one in candidates]
    >>> best = candidates[right.index(max(right))]
    >>> best.n_nodes
    2
    """
    require_forest(forest)
    options.flag("oblique", oblique)
    options.positive("tol", tol, or_zero=True)
    options.whole("max_iter", max_iter, least=0)
    options.whole("seed", seed, least=0)
    factor = factors(forest)
    link = link_of(forest)
    name = _loss_name(loss, link)
    Z, table = _read(forest, X)
    target = codes_or_values(forest, y, len(table))
    weight = weights(sample_weight, len(table))
    step = Step(
        is_oblique=oblique,
        monotone=True,
        svm=svm_of(penalty, C, lambda_, seed, may_be_constant=False),
        penalty=lambda_ if penalty == "l1" else 0.0,
    )
    choice = Choice(mask("nodes", nodes, forest.n_nodes), mask("leaves", leaves, forest.n_leaves))
    setting = Setting(name, link, target, weight, factor, step, choice, effective_jobs(n_jobs))
    return _rounds(forest, Z, table, setting, tol, max_iter, progress)


def _loss_name(loss: Any, link: Link | None) -> str:
    if isinstance(loss, str) and loss == "auto":
        if link is None:
            return "squared"
        return "zero_one" if link.name == "identity" else "log_loss"
    if not isinstance(loss, str) or loss not in LOSSES or (link is None and loss != "squared"):
        allowed = '"squared"' if link is None else ", ".join(map(repr, LOSSES))
        raise InputError(f"`loss` must be one of {allowed} for this forest, got {loss!r}.")
    return str(loss)


def _read(forest: Forest, X: Any) -> tuple[Array, Array]:
    """Return what the tests read and the rows themselves, in the forest's dtype."""
    table = tables.rows(X, forest.inputs, forest.dtype)
    if not len(table):
        raise InputError("`X` must have at least one row, got none: pass the training rows.")
    Z = table if forest.feature_map is None else forest.feature_map(table)
    return np.ascontiguousarray(Z), table


def _rounds(
    forest: Forest,
    Z: Array,
    X: Array,
    setting: Setting,
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> RefineResult:
    parts = parts_of(forest, Z, X, setting)
    total = np.tile(np.asarray(forest.output.base_score, np.float64), (len(X), 1))
    for part in parts:
        total += added(part, setting)
    history = [_look(0, setting, parts, total, 0)]
    if progress is not None:
        progress(history[0])
    statistics = new_statistics(forest.n_nodes)
    for iteration in range(1, max_iter + 1):
        accepted = 0
        for number, part in enumerate(parts):
            parts[number], total, result = refined(part, total, setting)
            accepted += result.history[-1].accepted
            note(statistics, part.first_node, result.nodes)
        history.append(_look(iteration, setting, parts, total, accepted))
        if progress is not None:
            progress(history[-1])
        gain = history[-2].objective - history[-1].objective
        if not gain > tol * max(float(setting.weight.sum()), np.finfo(np.float64).tiny):
            break
    better = history[-1].objective < history[0].objective
    moved = [part.tree if better and part.has_moved else None for part in parts]
    return RefineResult(
        joined(forest, moved),
        better,
        setting.loss,
        history[0].objective,
        history[-1].objective if better else history[0].objective,
        tuple(history),
        statistics,
    )


def _look(
    iteration: int, setting: Setting, parts: list[Part], total: Array, accepted: int
) -> Iteration:
    loss = LOSSES[setting.loss](setting.link, setting.y, total)
    lost = float((setting.weight * loss).sum())
    sizes = sum(float(norms(part.tree, part.rows.scale).sum()) for part in parts)
    penalty = setting.step.penalty * sizes
    return Iteration(iteration, lost + penalty, lost, penalty, accepted)
