"""The trees of the papers as plain arrays, taken from trees and linear models fitted on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table
from bitvec.converters.native import (
    from_cpt,
    from_e2edf,
    from_e2edt,
    from_kddt,
    from_kddt_forest,
    from_tao,
)
from bitvec.core.feature_maps import Layers, Linear, ReLU
from bitvec.learners import KDDTRandomForestClassifier

ROWS = 3000
Fitted = Callable[[np.ndarray, np.ndarray], tuple[Any, np.ndarray]]


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    letter, higgs, house, cover = data.letter, data.higgs, data.california, data.covtype

    yield _case("TAO with one-feature tests, letter", letter, _tao, ("TAO", "one-feature tests"))
    yield _case(
        "TAO with linear leaves, california",
        house,
        _linear_tao,
        ("TAO", "one-feature tests", "linear leaves"),
    )
    yield _case("TAO with sparse tests, covtype", cover, _sparse_tao, ("TAO", "oblique tests"))
    yield _case(
        "TAO with oblique tests and linear leaves, higgs",
        higgs,
        _oblique_tao,
        ("TAO", "oblique tests", "linear leaves"),
    )
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        yield _case(
            f"KDDT, letter, {name}", letter, _kddt(dtype, None), ("KDDT", "one-feature tests")
        )
        yield _case(f"CPT of three facets, higgs, {name}", higgs, _cpt(dtype), ("CPT", "facets"))
        yield _case(f"E2EDT, higgs, {name}", higgs, _e2edt(dtype), ("E2EDT", "oblique tests"))
    yield _case(
        "KDDT with a bandwidth, higgs",
        higgs,
        _kddt(np.float64, 0.1),
        ("KDDT", "one-feature tests", "bandwidths"),
    )
    yield _case(
        "KDDT with a bandwidth, letter",
        letter,
        _kddt(np.float64, 0.7),
        ("KDDT", "one-feature tests", "bandwidths"),
    )
    for name, table in (("higgs", higgs), ("letter", letter)):
        yield _case(f"KDDT forest, {name}", table, _kddt_forest, ("KDDTForest", "bandwidths"))
        yield _case(f"E2EDT behind a layer, {name}", table, _deep, ("E2EDT", "feature maps"))
    for name, table in (("higgs", higgs), ("covtype", cover)):
        yield _case(f"E2EDF, {name}", table, _e2edf, ("E2EDF", "oblique tests"))


def _case(
    name: str, table: Callable[[], Table], make: Callable[[Table], Any], options: tuple[str, ...]
) -> Case:
    def made(folder: Path) -> Made:
        part = table().head(ROWS)
        return Made(make(part), np.nan_to_num(part.codes))

    return Case(name, "native trees", options, made)


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


def _cart(part: Table, *, classify: bool) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    """Return the children, the tests and the leaf values of a trained CART."""
    kind = DecisionTreeClassifier if classify else DecisionTreeRegressor
    X = np.nan_to_num(part.codes)
    tree = kind(max_depth=6, random_state=0).fit(X, part.y).tree_
    is_leaf = tree.children_left < 0
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    sides = {"left": tree.children_left, "right": tree.children_right}
    children = {side: number[child[~is_leaf]] for side, child in sides.items()}
    tests = {"feature": tree.feature[~is_leaf], "threshold": tree.threshold[~is_leaf]}
    values = tree.value[is_leaf][:, 0]
    return children, tests, values


def _tao(part: Table) -> Any:
    children, tests, V = _cart(part, classify=True)
    return from_tao(**children, **tests, n_features=16, V=V, classes=np.unique(part.y))


def _linear_tao(part: Table) -> Any:
    children, tests, V = _cart(part, classify=False)
    X, width = np.nan_to_num(part.codes), part.frame.shape[1]
    slopes = Ridge().fit(X, part.y).coef_
    U = np.outer(np.linspace(0.5, 1.5, len(V)), slopes)
    return from_tao(**children, **tests, n_features=width, V=V, U=U, fallback=V[:, 0] / 2)


def _sparse_tao(part: Table) -> Any:
    tree = _grown(part.codes, part.y, _linear)
    W, bias = np.array([w for w, _ in tree.fits]), [bias for _, bias in tree.fits]
    W[np.abs(W) < np.quantile(np.abs(W), 0.9)] = 0
    classes = np.unique(part.y)
    V = tree.shares(part.y, classes)
    return from_tao(**tree.children, W=W, bias=bias, V=V, classes=classes)


def _oblique_tao(part: Table) -> Any:
    tree = _grown(part.codes, part.y, _linear)
    leaves = [Ridge().fit(part.codes[rows], part.y[rows]) for rows in tree.rows]
    return from_tao(
        **tree.children,
        W=np.array([w for w, _ in tree.fits]),
        bias=[bias for _, bias in tree.fits],
        V=[leaf.intercept_ for leaf in leaves],
        U=np.array([leaf.coef_ for leaf in leaves]),
    )


def _kddt(dtype: type, h: float | None) -> Callable[[Table], Any]:
    def make(part: Table) -> Any:
        children, tests, V = _cart(part, classify=True)
        return from_kddt(
            tests["feature"],
            tests["threshold"].astype(dtype),
            **children,
            V=V.astype(dtype),
            n_features=part.frame.shape[1],
            h=h,
            kernel="box" if dtype == np.float32 else "gaussian",
            classes=np.unique(part.y),
        )

    return make


def _kddt_forest(part: Table) -> Any:
    model = KDDTRandomForestClassifier(n_estimators=5, max_depth=5, bandwidth=0.2, random_state=0)
    return from_kddt_forest(model.fit(np.nan_to_num(part.codes), part.y).trees_)


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


def _cpt(dtype: type) -> Callable[[Table], Any]:
    def make(part: Table) -> Any:
        tree = _grown(part.codes, part.y, _facets)
        pi = tree.shares(part.y, np.unique(part.y))
        beta, r, tau = (np.array(values, dtype) for values in zip(*tree.fits, strict=True))
        return from_cpt(beta, r, tau=tau, **tree.children, pi=pi.astype(dtype))

    return make


def _e2edt(dtype: type) -> Callable[[Table], Any]:
    def make(part: Table) -> Any:
        return _e2edt_of(part.codes, part.y, np.unique(part.y), dtype)

    return make


def _e2edt_of(
    X: np.ndarray, y: np.ndarray, classes: np.ndarray, dtype: type = np.float64, **more: Any
) -> Any:
    tree = _grown(X, y, _linear)
    theta, bias = (np.array(values, dtype) for values in zip(*tree.fits, strict=True))
    pi = tree.shares(y, classes).astype(dtype)
    return from_e2edt(theta, bias, **tree.children, pi=pi, classes=classes, **more)


def _e2edf(part: Table) -> Any:
    rng = np.random.default_rng(0)
    picks = [rng.permutation(len(part.y))[:2000] for _ in range(3)]
    X, y = part.codes, part.y
    return from_e2edf([_e2edt_of(X[pick], y[pick], np.unique(y)) for pick in picks])


def _deep(part: Table) -> Any:
    X = part.codes
    network = MLPClassifier((8,), max_iter=30, random_state=0).fit(X, part.y)
    W, bias = network.coefs_[0].T, network.intercepts_[0]
    hidden = np.maximum(X @ W.T + bias, 0)
    phi = Layers((Linear(W, bias), ReLU()))
    return _e2edt_of(hidden, part.y, np.unique(part.y), phi=phi)
