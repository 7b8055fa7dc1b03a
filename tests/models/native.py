"""The trees of the papers as plain arrays, taken from trees and linear models fitted on rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bitvec.converters.native import (
    from_cpt,
    from_e2edf,
    from_e2edt,
    from_kddt,
    from_kddt_forest,
    from_tao,
    from_tao_boosting,
    from_tao_forest,
)
from bitvec.core.feature_maps import Layers, Linear, ReLU
from bitvec.learners import (
    KDDTRandomForestClassifier,
    TAOBoostingClassifier,
    TAOBoostingRegressor,
    TAOForestClassifier,
    TAOForestRegressor,
)
from tests.models import samples
from tests.models.samples import LABELS, Sample

Fitted = Callable[[np.ndarray, np.ndarray], tuple[Any, np.ndarray]]


class Grown(NamedTuple):
    """A tree: its children as the native types number them, a fit per node, rows per leaf."""

    children: dict[str, list[int]]
    fits: list[Any]
    rows: list[np.ndarray]

    def shares(self, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the shares of the classes in each leaf."""
        return np.array([np.mean(y[rows, None] == classes, axis=0) for rows in self.rows])


def _grown(X: np.ndarray, y: np.ndarray, fit: Fitted, nodes: int = 7) -> Grown:
    """Split the largest leaf again and again by what `fit` returns: a test, and who goes right."""
    left, right, fits = [], [], []
    rows: dict[tuple[str, int] | None, np.ndarray] = {None: np.arange(len(X))}
    side = {"left": left, "right": right}
    for node in range(nodes):
        at = max(rows, key=lambda place: len(rows[place]))
        here = rows.pop(at)
        if at is not None:
            side[at[0]][at[1]] = node
        test, goes_right = fit(X[here], y[here])
        left.append(0)
        right.append(0)
        fits.append(test)
        rows["left", node], rows["right", node] = here[~goes_right], here[goes_right]
    for leaf, place in enumerate(rows):
        assert place is not None
        side[place[0]][place[1]] = ~leaf
    return Grown({"left": left, "right": right}, fits, list(rows.values()))


def _linear(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return weights and a bias that tell the lower half of the labels from the upper half."""
    scaler = StandardScaler().fit(X)
    target = np.unique(y, return_inverse=True)[1]
    score = Ridge().fit(scaler.transform(X), target)
    w = score.coef_ / scaler.scale_
    margin = X @ w
    bias = -float(np.median(margin))
    return (w, bias), margin + bias > 0


def _cart(data: Sample, *, classify: bool) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    """Return the children, the tests and the leaf values of a trained CART."""
    kind = DecisionTreeClassifier if classify else DecisionTreeRegressor
    X = data.X
    tree = kind(max_depth=6, random_state=0).fit(X, data.y).tree_
    is_leaf = tree.children_left < 0
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    sides = {"left": tree.children_left, "right": tree.children_right}
    children = {side: number[child[~is_leaf]] for side, child in sides.items()}
    tests = {"feature": tree.feature[~is_leaf], "threshold": tree.threshold[~is_leaf]}
    values = tree.value[is_leaf][:, 0]
    return children, tests, values


def _tao(data: Sample) -> Any:
    children, tests, V = _cart(data, classify=True)
    return from_tao(**children, **tests, n_features=data.X.shape[1], V=V, classes=np.unique(data.y))


def _linear_tao(data: Sample) -> Any:
    children, tests, V = _cart(data, classify=False)
    X, width = data.X, data.X.shape[1]
    slopes = Ridge().fit(X, data.y).coef_
    U = np.outer(np.linspace(0.5, 1.5, len(V)), slopes)
    return from_tao(**children, **tests, n_features=width, V=V, U=U, fallback=V[:, 0] / 2)


def _sparse_tao(data: Sample, classes: np.ndarray | None = None) -> Any:
    tree = _grown(data.X, data.y, _linear)
    W, bias = np.array([w for w, _ in tree.fits]), [bias for _, bias in tree.fits]
    W[np.abs(W) < np.quantile(np.abs(W), 0.9)] = 0
    classes = np.unique(data.y) if classes is None else classes
    V = tree.shares(data.y, classes)
    return from_tao(**tree.children, W=W, bias=bias, V=V, classes=classes)


def _oblique_tao(data: Sample) -> Any:
    tree = _grown(data.X, data.y, _linear)
    leaves = [Ridge().fit(data.X[rows], data.y[rows]) for rows in tree.rows]
    return from_tao(
        **tree.children,
        W=np.array([w for w, _ in tree.fits]),
        bias=[bias for _, bias in tree.fits],
        V=[leaf.intercept_ for leaf in leaves],
        U=np.array([leaf.coef_ for leaf in leaves]),
    )


def _kddt(data: Sample, dtype: type = np.float64, h: float | None = None) -> Any:
    children, tests, V = _cart(data, classify=True)
    return from_kddt(
        tests["feature"],
        tests["threshold"].astype(dtype),
        **children,
        V=V.astype(dtype),
        n_features=data.X.shape[1],
        h=h,
        kernel="box" if dtype == np.float32 else "gaussian",
        classes=np.unique(data.y),
    )


def _kddt_forest(data: Sample) -> Any:
    model = KDDTRandomForestClassifier(n_estimators=5, max_depth=5, bandwidth=0.2, random_state=0)
    return from_kddt_forest(model.fit(data.X, data.y).trees_)


def _facets(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return three facets with their weights and tau, from three linear fits."""
    facets = []
    for seed in range(3):
        pick = np.random.default_rng(seed).permutation(len(X))[: max(20, len(X) // 3)]
        w, bias = _linear(X[pick], y[pick])[0]
        facets.append([*w, bias])
    beta, r = np.array(facets), np.array([1.0, 0.5, 2.0])
    inside = np.logaddexp(0, X @ beta[:, :-1].T + beta[:, -1]) @ r
    tau = float(np.median(inside))
    return (beta, r, tau), inside > tau


def _cpt(data: Sample, dtype: type) -> Any:
    tree = _grown(data.X, data.y, _facets)
    pi = tree.shares(data.y, np.unique(data.y))
    beta, r, tau = (np.array(values, dtype) for values in zip(*tree.fits, strict=True))
    return from_cpt(beta, r, tau=tau, **tree.children, pi=pi.astype(dtype))


def _e2edt(data: Sample, dtype: type) -> Any:
    return _e2edt_of(data.X, data.y, np.unique(data.y), dtype)


def _e2edt_of(
    X: np.ndarray, y: np.ndarray, classes: np.ndarray, dtype: type = np.float64, **more: Any
) -> Any:
    tree = _grown(X, y, _linear)
    theta, bias = (np.array(values, dtype) for values in zip(*tree.fits, strict=True))
    pi = tree.shares(y, classes).astype(dtype)
    return from_e2edt(theta, bias, **tree.children, pi=pi, classes=classes, **more)


def _e2edf(data: Sample) -> Any:
    rng = np.random.default_rng(0)
    picks = [rng.permutation(len(data.y))[:2000] for _ in range(3)]
    X, y = data.X, data.y
    return from_e2edf([_e2edt_of(X[pick], y[pick], np.unique(y)) for pick in picks])


def _tao_forest(data: Sample) -> Any:
    rng = np.random.default_rng(0)
    picks = [rng.permutation(len(data.y))[:2000] for _ in range(3)]
    parts = [data._replace(X=data.X[pick], y=data.y[pick]) for pick in picks]
    return from_tao_forest([_sparse_tao(part, np.unique(data.y)) for part in parts])


def _tao_boosting(data: Sample) -> Any:
    classes = np.unique(data.y)
    shares = np.array([np.mean(data.y == label) for label in classes])
    trees = [replace(tree, classes=None) for tree in _tao_forest(data).trees]
    return from_tao_boosting(trees, np.log(shares), classes=classes)


def _learned(data: Sample, learner: type, **options: Any) -> Any:
    """Return a fitted forest of few small trees of TAO."""
    small: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "max_iter": 3, "random_state": 0}
    return learner(**small | options).fit(data.X, data.y)


def _deep(data: Sample) -> Any:
    X = data.X
    network = MLPClassifier((8,), max_iter=30, random_state=0).fit(X, data.y)
    W, bias = network.coefs_[0].T, network.intercepts_[0]
    hidden = np.maximum(X @ W.T + bias, 0)
    phi = Layers((Linear(W, bias), ReLU()))
    return _e2edt_of(hidden, data.y, np.unique(data.y), phi=phi)


class Model(NamedTuple):
    """How a tree is made of rows.

    Parameters
    ----------
    supported : tuple of str
        The options of the format that it has.
    label : str
        What it learns, of `samples.LABELS`: names of classes, or numbers.
    """

    make: Callable[[Sample], Any]
    supported: tuple[str, ...]
    label: str = "class"


MODELS: dict[str, Model] = {
    "TAO": Model(_tao, ("TAO", "one-feature tests")),
    "TAO, linear leaves": Model(
        _linear_tao, ("TAO", "one-feature tests", "linear leaves"), "number"
    ),
    "TAO, sparse": Model(_sparse_tao, ("TAO", "oblique tests")),
    "TAO, oblique, linear leaves": Model(
        _oblique_tao, ("TAO", "oblique tests", "linear leaves"), "number"
    ),
    **{
        f"{name}, {dtype.__name__}": Model(partial(make, dtype=dtype), options)
        for dtype in (np.float32, np.float64)
        for name, make, options in (
            ("KDDT", _kddt, ("KDDT", "one-feature tests")),
            ("CPT", _cpt, ("CPT", "facets")),
            ("E2EDT", _e2edt, ("E2EDT", "oblique tests")),
        )
    },
    **{
        f"KDDT, bandwidth {h}": Model(
            partial(_kddt, h=h), ("KDDT", "one-feature tests", "bandwidths")
        )
        for h in (0.1, 0.7)
    },
    "E2EDT behind a layer": Model(_deep, ("E2EDT", "feature maps")),
    "KDDT forest": Model(_kddt_forest, ("KDDTForest", "bandwidths")),
    "TAO forest": Model(_tao_forest, ("TAOForest", "oblique tests")),
    "TAO boosting": Model(_tao_boosting, ("oblique tests",)),
    **{
        f"{learner.__name__}{more}": Model(partial(_learned, learner=learner, **own), has, label)
        for learner, more, own, has, label in (
            (TAOForestClassifier, "", {}, ("TAOForest", "oblique tests"), "class"),
            (
                TAOForestClassifier,
                ", sparse",
                {"penalty": "l1", "lambda_": 3.0},
                ("TAOForest", "oblique tests"),
                "class",
            ),
            (
                TAOForestRegressor,
                ", linear leaves",
                {"leaves": "linear"},
                ("TAOForest", "oblique tests", "linear leaves"),
                "number",
            ),
            (TAOBoostingClassifier, "", {}, ("oblique tests",), "class"),
            (
                TAOBoostingClassifier,
                ", one-feature tests",
                {"oblique": False},
                ("one-feature tests",),
                "class",
            ),
            (TAOBoostingRegressor, "", {}, ("oblique tests",), "number"),
            (
                TAOBoostingRegressor,
                ", linear leaves",
                {"leaves": "linear"},
                ("oblique tests", "linear leaves"),
                "number",
            ),
        )
    },
    "E2EDF": Model(_e2edf, ("E2EDF", "oblique tests")),
}


def train(model: Model, data: Sample) -> Any:
    """Return a tree of complete rows, whose label may be names of classes."""
    return model.make(data)


@cache
def trained(name: str) -> Any:
    """Return the tree of this name, of the small sample; it is shared, so leave it as it is."""
    X, y, _ = samples.small()
    whole = ~np.isnan(X).any(axis=1)
    label = LABELS[MODELS[name].label]
    return train(MODELS[name], Sample(X[whole], label(y[whole])))


def small() -> dict[str, Any]:
    """Return trees of two nodes, of each kind."""
    sides: dict[str, Any] = {"left": [1, -1], "right": [-3, -2]}
    leaves = {"pi": [[0.5, 0.5], [0.25, 0.75], [1, 0]], "classes": ["a", "b"], **sides}
    theta, V = np.array([[1, -1], [0.5, 2]]), np.array([0.1, 1.25, -0.3])
    linear = {"U": [[1, 2], [0, 0], [0, -1]], "fallback": [7, 8, 9]}
    oblique: dict[str, Any] = {"W": theta, "bias": [0.25, -1], "V": V, **sides}
    return {
        "CPT": from_cpt(np.arange(24.0).reshape(2, 4, 3), np.ones((2, 4)), q=[0.5, 0.8], **leaves),
        "E2EDT": from_e2edt(theta, [0.25, -1], **leaves),
        "E2EDF": from_e2edf([from_e2edt(s * theta, [0.25, -1], **leaves) for s in (1, 2)]),
        "KDDT": from_kddt([0, 1], [0.5, -1], V=V, n_features=2, **sides),
        "TAO": from_tao(**oblique),
        "TAO boosting": from_tao_boosting(
            [from_tao(**oblique | {"V": V * s}) for s in (1, 2)], -0.25, classes=["a", "b"]
        ),
        "TAO, linear leaves": from_tao(**oblique, **linear),
    }
