"""Plots of the tutorials on updates and on compression, of models that are fitted here."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import svg
from benchmarks.report import ROOT


def draw(folder: Path) -> None:
    """Write the plots as SVG; the front of the compression takes a minute."""
    draw_updates(folder)
    draw_front(folder)


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
