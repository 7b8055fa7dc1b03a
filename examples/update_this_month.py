# %% [markdown]
"""Go on with a booster in nine ways, where rows drift and where they do not.

Each is judged by what it gets right of rows that come next. In the order of scikit-learn's digits
each third was written by other people; in shuffled order nothing drifts.

As a script:

    python examples/update_this_month.py [--quick]
"""

# %%
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import xgboost
from sklearn.datasets import load_digits
from xgboost import XGBClassifier

import bitvec

LAST, THIS, NEXT = slice(0, 599), slice(599, 1198), slice(1198, None)
REFRESH = {"process_type": "update", "updater": "refresh", "refresh_leaf": True, "verbosity": 0}


# %%
def booster(rounds: int = 20) -> XGBClassifier:
    """Return what is fitted, before and again."""
    return XGBClassifier(n_estimators=rounds, max_depth=3, n_jobs=1)


def ways(X: np.ndarray, y: np.ndarray, rounds: int) -> dict[str, Callable[[], bitvec.Forest]]:
    """Return how to go on from a booster that was fitted to the first third, by name."""
    old, new, both = (X[LAST], y[LAST]), (X[THIS], y[THIS]), (X[: NEXT.start], y[: NEXT.start])
    model = booster(rounds).fit(*old)
    forest = bitvec.convert(model)

    def refreshed() -> bitvec.Forest:
        given = {"objective": "multi:softprob", "num_class": 10, "nthread": 1, **REFRESH}
        rows = xgboost.DMatrix(*new)
        again = model.get_booster().copy()
        return bitvec.convert(xgboost.train(given, rows, rounds, xgb_model=again))

    return {
        "nothing": lambda: forest,
        "`bitvec.update`": lambda: bitvec.update(forest, *new).forest,
        "`bitvec.update`, old rows replayed": (
            lambda: bitvec.update(forest, *new, replay=old).forest
        ),
        "`bitvec.update`, may grow": lambda: bitvec.update(forest, *new, grow=True).forest,
        "`bitvec.update`, may grow, old rows replayed": (
            lambda: bitvec.update(forest, *new, replay=old, grow=True).forest
        ),
        "leaves refreshed by xgboost": refreshed,
        "as many rounds more": lambda: bitvec.convert(booster(rounds).fit(*new, xgb_model=model)),
        "a fresh fit to this third": lambda: bitvec.convert(booster(rounds).fit(*new)),
        "a fresh fit to both": lambda: bitvec.convert(booster(rounds).fit(*both)),
    }


def lines(quick: bool) -> Iterator[str]:
    """Yield a table in Markdown: accuracy on the last third, which no way has seen."""
    X, y = load_digits(return_X_y=True)
    orders = {"other writers": np.arange(len(X))}
    if not quick:
        orders["shuffled"] = np.random.default_rng(0).permutation(len(X))
    columns = [ways(X[order], y[order], 5 if quick else 20) for order in orders.values()]
    yield "| way | leaves | " + " | ".join(orders) + " |"
    yield "| --- | ---: |" + " ---: |" * len(orders)
    for way in columns[0]:
        forests = [column[way]() for column in columns]
        scores = [
            bitvec.as_estimator(forest).score(X[order][NEXT], y[order][NEXT])
            for forest, order in zip(forests, orders.values(), strict=True)
        ]
        cells = " | ".join(f"{score:.3f}" for score in scores)
        yield f"| {way} | {forests[0].n_leaves:,} | {cells} |"


# %%
if __name__ == "__main__":
    for line in lines("--quick" in sys.argv[1:]):
        print(line, flush=True)
