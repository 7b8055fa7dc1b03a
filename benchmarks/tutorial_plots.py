"""Plots of the tutorials on retraining, updates and compression, of models fitted here."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import svg
from benchmarks.report import ROOT


def draw(folder: Path) -> None:
    """Write the plots as SVG; the front of the compression takes a minute."""
    draw_retraining(folder)
    draw_updates(folder)
    draw_front(folder)


def draw_retraining(folder: Path) -> None:
    """Write the course of the retraining that the page on it begins with."""
    from sklearn.datasets import load_digits
    from sklearn.tree import DecisionTreeClassifier

    import bitvec

    X, y = load_digits(return_X_y=True)
    fit, chosen = slice(0, 1000), slice(1000, 1250)
    cart = DecisionTreeClassifier(criterion="entropy", max_depth=6, random_state=0)
    tree = bitvec.convert(cart.fit(X[fit], y[fit]))
    held = (X[chosen], y[chosen])
    result = bitvec.retrain(tree, X[fit], y[fit], validation=held, budget="quick")
    svg.write(result.history.plot(), folder / "retrain-history.svg")


def draw_updates(folder: Path) -> None:
    """Write what an update makes of a column's effect, freely and with its direction kept."""
    from sklearn.datasets import load_breast_cancer
    from xgboost import XGBClassifier

    import bitvec
    from bitvec.explanations.dependence import partial_dependence
    from bitvec.plots.attributions import draw_partial_dependence

    tumours, benign = load_breast_cancer(return_X_y=True, as_frame=True)
    malignant, old, new = 1 - benign, slice(0, 250), slice(250, None)
    model = XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(tumours[old], malignant[old])
    forest, column = bitvec.convert(model), "worst concave points"
    for name, kept in (("free", None), ("rising", {column: 1})):
        found = bitvec.update(forest, tumours[new], malignant[new], monotone=kept).forest
        curves = partial_dependence(found, tumours, column, individual=True)
        svg.write(draw_partial_dependence(curves, found), folder / f"update-{name}.svg")


def draw_front(folder: Path) -> None:
    """Write the front that the long form of the example finds."""
    sys.path.insert(0, str(ROOT / "examples"))
    import compress_for_a_device as example

    fit, choose, _ = example.rows(quick=False)
    svg.write(example.compressed(fit, choose).front.plot(), folder / "compress-front.svg")
