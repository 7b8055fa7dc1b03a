# %% [markdown]
"""Retrain CARTs of several depths on scikit-learn's digits, and judge them on rows never seen.

As a script:

    python examples/retrain_a_tree.py [--quick]
"""

# %%
from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import bitvec


# %%
def retrained(depth: int, seed: int, steps: int | None) -> tuple[float, float, int, int]:
    """Return test accuracy before and after, and leaves before and after."""
    X, y = load_digits(return_X_y=True)
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    X_fit, X_held, y_fit, y_held = train_test_split(X_fit, y_fit, test_size=0.2, random_state=seed)
    tree = DecisionTreeClassifier(criterion="entropy", max_depth=depth, random_state=seed)
    forest = bitvec.convert(tree.fit(X_fit, y_fit))
    result = bitvec.retrain(
        forest,
        X_fit,
        y_fit,
        validation=(X_held, y_held),
        budget="quick",
        schedule={"steps": steps},
        prune_dead=True,
        seed=seed,
    )
    before, after = (
        bitvec.as_estimator(each).score(X_test, y_test) for each in (forest, result.forest)
    )
    return before, after, forest.n_leaves, result.forest.n_leaves


def lines(quick: bool) -> Iterator[str]:
    """Yield a table in Markdown."""
    yield "| depth | before | after | leaves |"
    yield "| ---: | ---: | ---: | --- |"
    for depth in (4,) if quick else (3, 4, 6, 8):
        runs = [retrained(depth, seed, 60 if quick else None) for seed in range(1 if quick else 3)]
        before, after, leaves, left = np.mean(runs, axis=0)
        yield f"| {depth} | {before:.3f} | {after:.3f} | {leaves:.0f} -> {left:.0f} |"


# %%
if __name__ == "__main__":
    for line in lines("--quick" in sys.argv[1:]):
        print(line, flush=True)
