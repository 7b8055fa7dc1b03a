"""The plots of the page on End-to-End Decision Trees, of trees that are fitted on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks import svg
from bitvec.converters.native.e2edt import E2EDT
from bitvec.learners.e2edt.sklearn import E2EDTClassifier

Array = np.ndarray[Any, Any]

SPATIAL = 0.003
SHAPE = (8, 6)
"""Shape of the digits without their first and last column, which hardly vary."""
STEPS = (0, 50, 800)
"""Steps of the refinement."""
GAMMAS = (2.0, 8.0)
"""Last γ of growth, and of the longest refinement."""
ARMS = ("north", "east", "south")


def draw(folder: Path) -> None:
    """Write the plots as SVG."""
    from bitvec.plots import annealing, oblique_trees

    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8)[:, :, 1:7].reshape(-1, 48)
    fit, test = slice(0, 1200), slice(1200, None)
    trees = []
    for strength in (0.0, SPATIAL):
        model = E2EDTClassifier(
            max_depth=3, refine=600, spatial=strength, spatial_shape=SHAPE, random_state=0
        )
        right = 100 * model.fit(X[fit], y[fit]).score(X[test], y[test])
        trees.append((f"spatial = {strength:g}: {right:.1f} % right on other rows", model.tree_))
    svg.write(oblique_trees.draw_weights(trees, SHAPE), folder / "e2edt-weights.svg")
    svg.write(oblique_trees.draw_tree(trees[0][1], X[fit]), folder / "e2edt-tree.svg")

    plane, arm = arms(105, 1)
    found = stages()
    svg.write(annealing.draw_annealing(found[-1][1], plane, arm), folder / "e2edt-annealing.svg")
    svg.write(annealing.draw_posterior(found, plane, arm), folder / "e2edt-posterior.svg")


def arms(n_rows: int, seed: int) -> tuple[Array, Array]:
    """Return rows of the plane in three arms of a spiral."""
    rng = np.random.default_rng(seed)
    arm = np.arange(n_rows) % 3
    along = rng.uniform(0.1, 1, n_rows)
    angle = 2 * np.pi * arm / 3 + 5.0 * along + 0.2 * rng.normal(size=n_rows)
    return np.stack([along * np.sin(angle), along * np.cos(angle)], axis=1), np.array(ARMS)[arm]


def stages() -> list[tuple[str, E2EDT]]:
    """Return one grown tree, and what refinements of more and more steps make of it.

    γ goes on from where growth ended, and the further the more steps there are.
    """
    (X, y), held_out = arms(240, 0), arms(300, 1)
    first, last = GAMMAS
    found = []
    for steps in STEPS:
        model = E2EDTClassifier(
            max_depth=5, gamma=(1.0, first), refine=steps, validation=held_out, random_state=0,
            refine_gamma=(first, first + (last - first) * steps / STEPS[-1]),
        )  # fmt: skip
        found.append((f"{steps} steps" if steps else "as grown", model.fit(X, y).tree_))
    return found
