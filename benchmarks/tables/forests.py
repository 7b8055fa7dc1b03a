"""Forests of End-to-End Decision Trees: accuracy by their size, and by how fast steepness rises.

The second is the paper's Table 1, the first its Figure 6: the first trees of a forest are a
forest too.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks.datasets import Table
from benchmarks.tables.grown import Record, Rows, Settings, sizes, split, visits_of
from bitvec.converters.native.e2edt import E2EDT

Array = np.ndarray[Any, Any]

SIZES: Final = (1, 3, 5, 10, 30, 70, 100)
"""Trees of which the accuracy is told, if there are as many."""
BATCH: Final = 2_000
"""Rows of a step in the paper's forests."""
REFINED: Final = 3
"""Times as many epochs in the refinement as in the growth of a level, as in the paper's forests."""
SHARPER: Final = (1.0, 2.0, 4.0, 8.0)
"""Factors that the last steepness may be multiplied by where a tree answers softly."""
EM_STEPS: Final = 5
HELD_OUT: Final = 0.15


def forest(settings: Settings, table: Table, seed: int) -> Record:
    """Fit a forest, and test its first trees, too, on rows held out and on test rows."""
    X, y, test = split(table, seed)
    held, rest = _parted(X, y, seed)
    begin = time.process_time()
    model = bitvec.learners.E2EDFClassifier(random_state=seed, **settings).fit(*rest)
    end = time.process_time()
    return {
        "held_out": float(model.score(*held)),
        "train": float(model.score(*rest)),
        "test": float(model.score(*test)),
        **sizes(model.forest_, test[0]),
        "by_trees": by_trees(model, test),
        "seconds": end - begin,
    }


def _parted(X: Array, y: Array, seed: int) -> tuple[Rows, Rows]:
    """Return rows held out, and the rest."""
    order = np.random.default_rng([seed, 2]).permutation(len(X))
    n = int(HELD_OUT * len(X))
    return (X[order[:n]], y[order[:n]]), (X[order[n:]], y[order[n:]])


def by_trees(model: bitvec.learners.E2EDFClassifier, test: Rows) -> list[Record]:
    """Return the accuracy of the first trees, and the splits that a row passes in them."""
    X, y = test
    each = bitvec.compile(model.forest_).per_tree(X)
    node_ptr = model.forest_.bitvectors.node_ptr
    passed = np.concatenate([[0], np.cumsum(visits_of(model.forest_, X))])[node_ptr[1:]]
    return [
        {
            "trees": n,
            "test": float(np.mean(model.classes_[each[:, :n].mean(axis=1).argmax(axis=1)] == y)),
            "splits": float(passed[n - 1]),
        }
        for n in SIZES
        if n <= each.shape[1]
    ]


def steepness_settings(rise: float, epochs: int, n_rows: int) -> Settings:
    """Return the options for a steepness that is 1 at first and rises by so much an epoch.

    An epoch is as many steps as `BATCH` has to be taken to make up the rows, as in the paper: all
    rows are passed once by the steps of the root, and more often by those below, where a step holds
    at least 256 rows of each node. Each level begins at 1; the refinement goes on from where growth
    ended, for three times as many epochs of as many steps, whose batches are of 512 rows.

    Examples
    --------
    >>> options = steepness_settings(0.1, 15, 14_000)
    >>> options["steps"], options["gamma"], options["refine"], options["refine_gamma"]
    (105, (1.0, 2.5), 315, (2.5, 7.0))
    """
    steps = epochs * -(-n_rows // BATCH)
    grown, refined = 1 + rise * epochs, 1 + rise * (1 + REFINED) * epochs
    return {
        "steps": steps,
        "batch_size": BATCH,
        "gamma": (1.0, grown),
        "refine": REFINED * steps,
        "refine_gamma": (grown, refined),
    }


def steepness(settings: Settings, table: Table, seed: int) -> Record:
    """Fit a forest whose steepness rises by `rise` in each of `epochs`; test it hard and soft."""
    settings = dict(settings)
    rise, epochs = settings.pop("rise"), settings.pop("epochs")
    X, y, test = split(table, seed)
    held, rest = _parted(X, y, seed)
    options = steepness_settings(rise, epochs, len(rest[0]))
    begin = time.process_time()
    model = bitvec.learners.E2EDFClassifier(
        random_state=seed, validation=held, **options, **settings
    )
    model.fit(*rest)
    end = time.process_time()
    sharper, soft = soft_accuracy(model, rest, held, test)
    return {
        "hard": float(model.score(*test)),
        "soft": soft,
        "sharper": sharper,
        "held_out": float(model.score(*held)),
        **sizes(model.forest_, test[0]),
        "by_trees": by_trees(model, test),
        "seconds": end - begin,
    }


def soft_accuracy(
    model: bitvec.learners.E2EDFClassifier, rest: Rows, held: Rows, test: Rows
) -> tuple[float, float]:
    """Return how much sharper the trees answer softly, and their soft accuracy on test rows.

    Leaf distributions are fitted to the soft routes of the rows that the trees were grown on.
    Training moves the margins beside the steepness, so the likelihood of rows held out says by what
    the last steepness is multiplied.
    """
    codes = [np.searchsorted(model.classes_, y) for _, y in (rest, held, test)]
    best = (-np.inf, 1.0, 0.0)
    for sharper in SHARPER:
        answers = [np.zeros((len(X), model.classes_.size)) for X, _ in (held, test)]
        for tree in model.trees_:
            soft = replace(tree, gamma=sharper * tree.gamma)
            pi = soft_leaves(soft, rest[0], codes[0], model.classes_.size)
            for answer, (X, _) in zip(answers, (held, test), strict=True):
                answer += soft.memberships(X) @ pi / len(model.trees_)
        told = answers[0][np.arange(len(codes[1])), codes[1]]
        likelihood = float(np.mean(np.log(np.maximum(told, 1e-12))))
        accuracy = float(np.mean(answers[1].argmax(axis=1) == codes[2]))
        best = max(best, (likelihood, sharper, accuracy))
    return best[1], best[2]


def soft_leaves(
    tree: E2EDT, X: Array, code: Array, n_classes: int, *, steps: int = EM_STEPS
) -> Array:
    """Return leaf distributions of large likelihood while every node decides softly.

    By so many steps of expectation maximisation from the class shares of each leaf, rows counted by
    their membership.
    """
    mu = tree.memberships(X)
    share, one_hot = mu, np.eye(n_classes)[code]
    for step in range(steps + 1):
        counts = share.T @ one_hot
        pi = (counts + 1e-9) / (counts + 1e-9).sum(axis=1, keepdims=True)
        if step < steps:
            share = mu * pi[:, code].T
            share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    return pi
