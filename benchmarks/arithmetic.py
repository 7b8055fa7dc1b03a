"""The table of how each library compares and adds, read off forests that were converted from it.

python -m benchmarks.arithmetic [--json] [--save]
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks.report import Column, Goal, Row, Table
from benchmarks.runner import Benchmark, run
from bitvec.core.node_tests import MissingRule, Relation

_RNG: Final = np.random.default_rng(0)
X: Final = _RNG.normal(size=(300, 4)).astype(np.float32)
VALUES: Final = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
CLASSES: Final = (VALUES > 0).astype(int) + (X[:, 3] > 1)


def _of_sklearn(name: str, y: Any, **options: Any) -> Callable[[], Any]:
    def made() -> Any:
        from sklearn import ensemble

        return getattr(ensemble, name)(random_state=0, **options).fit(X, y)

    return made


def _xgboost() -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1).fit(X, CLASSES)


def _lightgbm() -> Any:
    import lightgbm

    options: dict[str, Any] = {"n_estimators": 3, "n_jobs": 1, "verbose": -1}
    return lightgbm.LGBMClassifier(num_leaves=6, **options).fit(X, CLASSES)


def _catboost() -> Any:
    import catboost

    options = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    return catboost.CatBoostClassifier(iterations=3, depth=3, **options).fit(X, CLASSES)


def _ydf() -> Any:
    import ydf

    ydf.verbose(0)
    data = {f"x{j}": X[:, j] for j in range(4)} | {"label": CLASSES}
    return ydf.GradientBoostedTreesLearner(label="label", num_trees=3, max_depth=3).train(data)


def _tree_ensemble() -> Any:
    forest = bitvec.convert(_of_sklearn("RandomForestRegressor", VALUES, n_estimators=3)())
    return bitvec.export(forest, Path(tempfile.mkdtemp()) / "model.onnx")


def _tree_ensemble_classifier() -> Any:
    import skl2onnx

    model = _of_sklearn("RandomForestClassifier", CLASSES, n_estimators=3)()
    return skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})


def _treelite() -> Any:
    import treelite

    return treelite.frontend.from_xgboost(_xgboost().get_booster())


SOURCES: Final[dict[str, Callable[[], Any]]] = {
    "scikit-learn, RandomForestClassifier": _of_sklearn(
        "RandomForestClassifier", CLASSES, n_estimators=3
    ),
    "scikit-learn, GradientBoostingClassifier": _of_sklearn(
        "GradientBoostingClassifier", CLASSES, n_estimators=3
    ),
    "scikit-learn, HistGradientBoostingClassifier": _of_sklearn(
        "HistGradientBoostingClassifier", CLASSES, max_iter=3
    ),
    "scikit-learn, AdaBoostRegressor": _of_sklearn("AdaBoostRegressor", VALUES, n_estimators=3),
    "scikit-learn, IsolationForest": _of_sklearn("IsolationForest", None, n_estimators=3),
    "xgboost": _xgboost,
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "YDF, gradient boosted trees": _ydf,
    "treelite, of xgboost": _treelite,
    "ONNX, TreeEnsemble of version 5": _tree_ensemble,
    "ONNX, TreeEnsembleClassifier": _tree_ensemble_classifier,
}


def cases(options: Namespace) -> Iterable[str]:
    """Return the sources."""
    return SOURCES


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield how the forest of one source compares and adds."""
    forest = bitvec.convert(SOURCES[name]())
    tests, output = forest.tests, forest.output
    yield {
        "source": name,
        "compares_in": str(forest.dtype),
        "goes_right": " and ".join(
            sorted({"x > b" if one == Relation.GREATER else "x >= b" for one in tests.relation})
        ),
        "missing": ", ".join(sorted({_words(MissingRule(one).name) for one in tests.missing_rule})),
        "adds_in": str(output.dtype),
        "trees": _words(output.aggregate),
        "base": "first" if output.base_first else "last",
        "link": _words(output.post_transform),
        "labels": "raw scores" if output.labels_from_raw else "scores after the link",
    }


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return that every source is there."""
    return [Goal("sources that were converted", f">= {len(SOURCES)}", len(rows))]


BENCHMARK: Final = Benchmark(
    "arithmetic",
    cases,
    measure,
    goals,
    {
        "table": Table(
            (
                Column("source", "source"),
                Column("compares in", "compares_in"),
                Column("goes right where", "goes_right"),
                Column("missing", lambda row: row["missing"].replace("nan", "NaN")),
                Column("adds in", "adds_in"),
                Column("trees are combined by", "trees"),
                Column("base score", "base"),
                Column("link", "link"),
                Column("labels by", "labels"),
            ),
            list,
        )
    },
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
