"""Plots of the pages on the four arrays and on research, of small trees that are fitted here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(folder: Path) -> None:
    """Write the plots as SVG."""
    from sklearn.datasets import load_iris
    from sklearn.tree import DecisionTreeClassifier

    import bitvec
    from bitvec.plots.forests import draw_matrices, draw_path

    iris = load_iris(as_frame=True)
    X, labels = iris.data, iris.target_names[iris.target]
    forest = bitvec.convert(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, labels))
    row = X.to_numpy()[119]
    svg.write(draw_matrices(forest), folder / "representation-matrices.svg")
    svg.write(draw_path(forest, row), folder / "representation-path.svg")
    for name, figure in zip(("axis", "oblique"), _boundaries(), strict=True):
        for panel in figure.axes:
            for points in (*panel.collections, *panel.images):
                points.set_rasterized(True)
        svg.write(figure, folder / f"research-{name}.svg")


def _boundaries() -> tuple[Figure, Figure]:
    """Return what trees of one column a node, and what others make of two columns."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    from bitvec.learners import CPTClassifier, E2EDTClassifier, KDDTClassifier, TAOClassifier
    from bitvec.plots.forests import draw_boundaries

    data = load_breast_cancer()
    X, y = data.data[:300, :2], data.target[:300]
    X = StandardScaler().fit_transform(X)
    learners = {
        "CART": DecisionTreeClassifier(max_depth=3, random_state=0),
        "KDDT": KDDTClassifier(max_depth=3, bandwidth=0.5, random_state=0),
        "TAO": TAOClassifier(max_depth=3, random_state=0),
        "TAO, oblique": TAOClassifier(max_depth=3, oblique=True, random_state=0),
        "CPT": CPTClassifier(max_depth=2, steps=100, refine=50, restarts=1, random_state=0),
        "E2EDT": E2EDTClassifier(max_depth=3, steps=60, refine=60, random_state=0),
    }
    fitted = {name: each.fit(X, y) for name, each in learners.items()}
    surfaces = [
        (name, lambda Z, each=each: each.predict_proba(Z)[:, 1]) for name, each in fitted.items()
    ]
    names = [f"{name}, standardised" for name in data.feature_names[:2]]
    return (
        draw_boundaries(surfaces[:3], X, y, names, resolution=160),
        draw_boundaries(surfaces[3:], X, y, names, resolution=160),
    )
