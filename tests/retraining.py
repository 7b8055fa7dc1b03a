"""Small forests to start retraining from, and problems that they can learn."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from bitvec.core import structure, transforms
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, Output
from bitvec.runtime.predict.torch import TorchEngine

FAST = {"steps": 60, "batch_size": 64, "evaluations": 3}


def retrain(forest, X, y=None, *, budget=None, **options):
    """Train one recipe, with the options of the schedule, penalties and teacher by name."""
    from bitvec.learners.retrained.retrain import retrain as search
    from bitvec.runtime.train.retrain.retrain_options import Penalties, Schedule

    groups = {}
    for name, kind in (("schedule", Schedule), ("penalties", Penalties)):
        known = [field.name for field in fields(kind) if field.name in options]
        if known:
            groups[name] = {key: options.pop(key) for key in known}
    return search(forest, X, y, budget=budget, **groups, **options)


def grown(X, y, *, n_trees=1, depth=3, classes=None, seed=0, **output):
    """A forest with random splits and leaves counted on the rows: a start that can be improved."""
    rng = np.random.default_rng(seed)
    complete = 2**depth - 1
    number = np.arange(2 * complete + 1)
    first = np.arange(n_trees)[:, None] * number.size
    left, right = (
        np.where(number < complete, first + 2 * number + side, -1).ravel() for side in (1, 2)
    )
    B = structure.arrange(left, right, first[:, 0])[0]
    feature = rng.integers(0, X.shape[1], B.n_nodes)
    b = np.array([np.nanquantile(X[:, j], rng.uniform(0.3, 0.7)) for j in feature], np.float32)
    width = 1 if classes is None else len(classes)
    empty = Leaves(np.zeros((B.n_leaves, width)))
    forest = Forest(
        axis_aligned(feature, b, missing_right=rng.random(B.n_nodes) < 0.5),
        B,
        empty,
        Output(
            width,
            np.dtype(np.float64),
            Aggregate.MEAN,
            classes=None if classes is None else (classes,),
            **output,
        ),
        Inputs(X.shape[1]),
    )
    leaf = TorchEngine(forest).exit_leaves(X) + B.leaf_ptr[:-1]
    target = y[:, None] if classes is None else (y[:, None] == classes)
    v = np.full((B.n_leaves, width), target.mean())
    for at in np.unique(leaf):
        v[at] = target[(leaf == at).any(axis=1)].mean(axis=0)
    if classes is not None:
        v /= v.sum(axis=1, keepdims=True)
    return replace(forest, leaves=Leaves(v))


def oblique_classes(n=400, seed=0, labels=("no", "yes")):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, np.array(labels)[(X @ [1.0, -1.0, 0.5] > 0).astype(int)]


def accuracy(forest, X, y):
    return float((transforms.predictions(forest.output, TorchEngine(forest).raw(X)) == y).mean())
