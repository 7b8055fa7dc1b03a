# %% [markdown]
"""Compare CART with the trees of four papers on data of scikit-learn, by cross-validation.

As a script:

    python examples/compare_learners.py [--quick]
"""

# %%
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from bitvec.learners import CPTClassifier, E2EDTClassifier, KDDTClassifier, TAOClassifier

DATA: dict[str, Callable[..., Any]] = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
}


# %%
def learners(quick: bool) -> dict[str, Any]:
    """Return one tree of each kind, of depth 4 at most; options are those by default otherwise."""
    short = {"steps": 50, "refine": 50} if quick else {}
    return {
        "CART": DecisionTreeClassifier(max_depth=4, random_state=0),
        "KDDT": KDDTClassifier(max_depth=4, random_state=0),
        "TAO": TAOClassifier(max_depth=4, random_state=0),
        "TAO, oblique": TAOClassifier(max_depth=4, oblique=True, random_state=0),
        "CPT": CPTClassifier(max_depth=2, random_state=0, **short),
        "E2EDT": E2EDTClassifier(max_depth=4, random_state=0, **short),
    }


def lines(quick: bool) -> Iterator[str]:
    """Yield a table in Markdown: mean accuracy over the folds and its deviation."""
    kinds = learners(quick)
    yield "| data | " + " | ".join(kinds) + " |"
    yield "| --- |" + " ---: |" * len(kinds)
    folds = StratifiedKFold(2 if quick else 5, shuffle=True, random_state=0)
    for name in ("iris",) if quick else DATA:
        X, y = DATA[name](return_X_y=True)
        cells = []
        for learner in kinds.values():
            scores = cross_val_score(make_pipeline(StandardScaler(), learner), X, y, cv=folds)
            cells.append(f"{scores.mean():.3f} ± {scores.std():.3f}")
        yield f"| {name} | " + " | ".join(cells) + " |"


# %%
if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in lines("--quick" in sys.argv[1:]):
        print(line, flush=True)
