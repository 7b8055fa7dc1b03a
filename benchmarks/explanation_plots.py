"""Plots of the page on explanations, of small models that are fitted here."""

from __future__ import annotations

from pathlib import Path

from benchmarks import svg


def draw(folder: Path) -> None:
    """Write the plots as SVG."""
    from sklearn.datasets import load_diabetes, load_iris
    from sklearn.tree import DecisionTreeClassifier
    from xgboost import XGBRegressor

    import bitvec
    from bitvec.explanations.dependence import partial_dependence
    from bitvec.plots import attributions
    from bitvec.plots.distributions import draw_distributions

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = bitvec.convert(XGBRegressor(n_estimators=50, max_depth=4, n_jobs=1).fit(X, y))
    explainer = bitvec.explain(forest)
    curves = partial_dependence(forest, X, "bmi", individual=True)
    iris = load_iris(as_frame=True)
    labels = iris.target_names[iris.target]
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(iris.data, labels)
    for name, figure in (
        ("swarm", attributions.draw_beeswarm(explainer, X)),
        ("waterfall", attributions.draw_waterfall(explainer, X[:1])),
        ("dependence", attributions.draw_partial_dependence(curves, forest)),
        ("tree", draw_distributions(bitvec.convert(tree), iris.data, labels)),
    ):
        for panel in figure.axes:
            for points in panel.collections:
                points.set_rasterized(True)
        svg.write(figure, folder / f"explain-{name}.svg")
