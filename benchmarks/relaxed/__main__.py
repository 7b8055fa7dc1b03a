"""Measure every relaxation, and judge every figure that is asked for."""

from __future__ import annotations

from argparse import Namespace

import benchmarks.relaxed as package
from benchmarks.relaxed import forests, forms
from benchmarks.relaxed.measure import DENSE, process, require_equal, seconds
from benchmarks.relaxed.summary import table, targets
from benchmarks.report import Row, Target
from benchmarks.runner import run, say
from bitvec.runtime.train.relax.relaxations import RELAXATIONS

TREES = 100
DEPTHS = (4, 6, 8, 10, 12, 14)
DEEPEST_OF_ALL = 10
"""Beyond this depth only path products are measured, once: at depth 12 the dense form's gates and
memberships would be 100 x 4,096 x 1,024 numbers, several times."""
LEAVES = (64, 256, 1024)
TURNS = 7


def measured(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return a row for each relaxation and depth, and for each map of one tree's leaves."""
    n_trees, depths, turns = (10, (4, 6), 3) if options.quick else (TREES, DEPTHS, TURNS)
    rows = [row for depth in depths for row in _of_depth(n_trees, depth, turns)]
    for n_leaves in LEAVES:
        steps = {
            name: forms.projection(name, n_leaves, forests.BATCH)
            for name in ("softmax", "sparsemax", "entmax15")
        }
        taken = seconds(steps, turns=3 * turns)
        rows += [
            {
                "form": name,
                "what": "map",
                "leaves": n_leaves,
                "seconds": value,
                "of_softmax": value / taken["softmax"],
            }
            for name, value in taken.items()
        ]
    return rows, targets(rows, whole=options.whole)


def _of_depth(n_trees: int, depth: int, turns: int) -> list[Row]:
    if depth > DEEPEST_OF_ALL:
        return [_deep(n_trees, depth, name) for name in ("sigmoid", "smooth_step")]
    forest, X = forests.complete(n_trees, depth), forests.rows()
    reference, dense_mb = forms.dense(forest, X), process(DENSE, n_trees, depth)["mb"]
    rows = []
    for name in RELAXATIONS:
        say(f"depth {depth}, {name}")
        steps = {name: forms.ours(forest, X, name), DENSE: reference}
        difference = require_equal(*steps.values()) if name == "sigmoid" else None
        taken = seconds(steps, turns=turns if name == "sigmoid" else 2)
        rows.append(
            {
                "form": name,
                "what": "step",
                "trees": n_trees,
                "depth": depth,
                "seconds": taken[name],
                "dense_seconds": taken[DENSE],
                "times_faster": taken[DENSE] / taken[name],
                "difference": difference,
                "mb": process(name, n_trees, depth)["mb"],
                "dense_mb": dense_mb,
            }
        )
    return rows


def _deep(n_trees: int, depth: int, name: str) -> Row:
    """Return one step, once: the dense form cannot be made."""
    say(f"depth {depth}, {name}")
    row = {"form": name, "what": "step", "trees": n_trees, "depth": depth}
    return {**row, **process(name, n_trees, depth)}


if __name__ == "__main__":
    run("relaxed", package.__doc__, measured, tables=lambda _: [table])
