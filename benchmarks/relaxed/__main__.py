"""Measure every relaxation, and say whether every figure that is asked for was met."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.relaxed import forests, forms
from benchmarks.relaxed.measure import DENSE, alone, require_equal, seconds
from benchmarks.relaxed.summary import table, targets
from benchmarks.report import finish, parser
from bitvec.runtime.train.relax.relaxations import RELAXATIONS

TREES = 100
DEPTHS = (4, 6, 8, 10, 12, 14)
DEEPEST_OF_ALL = 10
"""Beyond this depth only path products are measured, once: at depth 12 the dense form's gates and
memberships would be 100 x 4,096 x 1,024 numbers, several times."""
LEAVES = (64, 256, 1024)
TURNS = 7


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__ or "").parse_args()
    n_trees, depths, turns = TREES, DEPTHS, TURNS
    if options.quick:
        n_trees, depths, turns = 10, (4, 6), 3
    rows: list[dict[str, Any]] = []
    for depth in depths:
        rows += _of_depth(n_trees, depth, turns)
    for n_leaves in LEAVES:
        steps = {
            name: forms.projection(name, n_leaves, forests.BATCH)
            for name in ("softmax", "sparsemax", "entmax15")
        }
        taken = seconds(steps, turns=3 * turns)
        for name, value in taken.items():
            rows.append(
                {
                    "form": name,
                    "what": "map",
                    "leaves": n_leaves,
                    "seconds": value,
                    "of_softmax": value / taken["softmax"],
                }
            )
    finish("relaxed", options, rows, targets(rows, whole=not options.quick), table=table)


def _of_depth(n_trees: int, depth: int, turns: int) -> list[dict[str, Any]]:
    if depth > DEEPEST_OF_ALL:
        return [_deep(n_trees, depth, name) for name in ("sigmoid", "smooth_step")]
    forest, X = forests.complete(n_trees, depth), forests.rows()
    reference, dense_mb = forms.dense(forest, X), alone(DENSE, n_trees, depth)["mb"]
    rows = []
    for name in RELAXATIONS:
        print(f"depth {depth}, {name}", file=sys.stderr, flush=True)
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
                "mb": alone(name, n_trees, depth)["mb"],
                "dense_mb": dense_mb,
            }
        )
    return rows


def _deep(n_trees: int, depth: int, name: str) -> dict[str, Any]:
    """Return one step, once: the dense form cannot be made."""
    print(f"depth {depth}, {name}", file=sys.stderr, flush=True)
    row = {"form": name, "what": "step", "trees": n_trees, "depth": depth}
    return {**row, **alone(name, n_trees, depth)}


if __name__ == "__main__":
    main()
