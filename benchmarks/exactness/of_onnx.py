"""ONNX: files of exporters, and operators of every version, mode, aggregate and post-transform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightgbm as lgb
import numpy as np
import onnx
import onnxmltools
import skl2onnx
import xgboost as xgb
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier

import bitvec
from benchmarks.exactness.cases import Case, Made
from benchmarks.exactness.onnx_operators import (
    AGGREGATES,
    CLASSIFIER,
    ENSEMBLE,
    MEMBER,
    MODES,
    REGRESSOR,
    TRANSFORMS,
    by_ids,
    by_positions,
    model,
    nodes_of,
)
from benchmarks.frames import Data, Table

ROWS = 3000


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter
    higgs, mushroom = data.higgs, data.mushroom

    small = {"max_depth": 6, "random_state": 0}
    for estimator, table, more in (
        (DecisionTreeClassifier(**small), letter, ("labels of text",)),
        (RandomForestClassifier(6, **small), letter, ("labels of text",)),
        (ExtraTreesClassifier(6, **small), cover, ()),
        (GradientBoostingClassifier(n_estimators=10), higgs, ("post transform LOGISTIC",)),
        (GradientBoostingClassifier(n_estimators=4), cover, ("post transform SOFTMAX",)),
        (GradientBoostingRegressor(n_estimators=20), higgs, ("aggregate SUM",)),
    ):
        kind = CLASSIFIER if "Classifier" in type(estimator).__name__ else REGRESSOR
        yield _saved(
            f"skl2onnx's {type(estimator).__name__} on {table.__name__}",
            table,
            _by_skl2onnx(estimator, np.float32),
            (f"{kind} v1", "exported by skl2onnx", *more),
        )
    for estimator in (ExtraTreesRegressor(8, **small), GradientBoostingRegressor(n_estimators=20)):
        yield _saved(
            f"skl2onnx's {type(estimator).__name__} on higgs, float64",
            higgs,
            _by_skl2onnx(estimator, np.float64),
            (f"{REGRESSOR} v1", "exported by skl2onnx", "float64", "aggregate SUM"),
        )
    for estimator, table, kind, more in (
        (xgb.XGBRegressor(n_estimators=12, max_depth=5), house, REGRESSOR, ()),
        (xgb.XGBClassifier(n_estimators=12), higgs, CLASSIFIER, ("post transform LOGISTIC",)),
        (xgb.XGBClassifier(n_estimators=3), cover, CLASSIFIER, ("post transform SOFTMAX",)),
        (lgb.LGBMRegressor(n_estimators=12, verbose=-1), house, REGRESSOR, ()),
        (
            lgb.LGBMClassifier(n_estimators=12, verbose=-1),
            higgs,
            CLASSIFIER,
            ("post transform LOGISTIC",),
        ),
    ):
        missing = ("missing values",) if table is house else ()
        yield _saved(
            f"onnxmltools' {type(estimator).__name__} on {table.__name__}",
            table,
            _by_onnxmltools(estimator),
            (f"{kind} v1", "exported by onnxmltools", *missing, *more),
        )
    for table in (adult, data.flights):
        yield _saved(
            f"onnxmltools' chains of categories on {table.__name__}",
            table,
            _chains,
            (f"{REGRESSOR} v1", "exported by onnxmltools", "chains of equalities"),
        )
    for number, mode in enumerate(MODES):
        version, aggregate = (1, 3, 5)[number % 3], AGGREGATES[number % 4]
        table = mushroom if mode in ("BRANCH_EQ", "BRANCH_NEQ") else house
        yield _built(
            f"{mode} on {table.__name__}",
            table,
            version,
            (mode,),
            aggregate=aggregate,
            missing=table is house,
        )
    for version in (1, 3, 5):
        for aggregate in AGGREGATES:
            yield _built(
                f"mixed modes on california, {aggregate}, version {version}",
                house,
                version,
                MODES,
                aggregate=aggregate,
                double=version > 1 and aggregate in ("SUM", "MAX"),
                missing=True,
            )
    for transform in TRANSFORMS:
        for version in (3, 5):
            table = letter if transform == "LOGISTIC" else cover
            yield _built(
                f"{transform} on {table.__name__}, version {version}",
                table,
                version,
                MODES,
                transform=transform,
                classes=True,
            )
    for table in (adult, house):
        for double in (False, True):
            yield _built(
                f"sets on {table.__name__}, {'float64' if double else 'float32'}",
                table,
                5,
                (MEMBER, *MODES),
                double=double,
                missing=True,
            )
    for table in (adult, house):
        yield _saved(
            f"bitvec's file of xgboost on {table.__name__}",
            table,
            _by_bitvec,
            (f"{ENSEMBLE} v5", "exported by bitvec", "set membership", "missing values"),
        )


def _saved(
    name: str, table: Callable[[], Table], make: Callable[[Table], Any], options: tuple[str, ...]
) -> Case:
    """Train on 3,000 rows, and save the model that `make` exports."""

    def saved(folder: Path) -> Made:
        part = table().head(ROWS)
        path = folder / "model.onnx"
        path.write_bytes(make(part).SerializeToString())
        return Made(path, part.codes)

    return Case(name, "ONNX", options, saved)


def _by_skl2onnx(estimator: Any, dtype: type) -> Callable[[Table], Any]:
    def make(part: Table) -> Any:
        X = part.codes.astype(dtype)
        domains = {"": 17, "ai.onnx.ml": 3}
        return skl2onnx.to_onnx(estimator.fit(X, part.y), X[:1], target_opset=domains)

    return make


def _by_onnxmltools(estimator: Any) -> Callable[[Table], Any]:
    def make(part: Table) -> Any:
        is_class = "Classifier" in type(estimator).__name__
        y = np.unique(part.y, return_inverse=True)[1] if is_class else part.y
        return _converted(estimator.fit(part.codes, y), part.frame.shape[1])

    return make


def _converted(model: Any, n_features: int) -> Any:
    library = "xgboost" if type(model).__module__.startswith("xgboost") else "lightgbm"
    columns = [("X", FloatTensorType([None, n_features]))]
    return getattr(onnxmltools, f"convert_{library}")(model, initial_types=columns)


def _chains(part: Table) -> Any:
    """Return LightGBM's sets of categories, which onnxmltools writes as chains of equalities."""
    # onnxmltools takes the sets of a column with blanks for those of one without.
    X = np.nan_to_num(part.codes)
    few = [at for at in part.categorical if part.frame.iloc[:, at].nunique() <= 32]
    rows = lgb.Dataset(X, part.y, categorical_feature=few)
    given = {"num_leaves": 12, "verbose": -1, "cat_smooth": 1, "max_cat_to_onehot": 1}
    return _converted(lgb.train(given, rows, 8), X.shape[1])


def _by_bitvec(part: Table) -> Any:
    kinds = ["c" if i in part.categorical else "float" for i in range(part.frame.shape[1])]
    rows = xgb.DMatrix(part.codes, part.y, feature_types=kinds, enable_categorical=True)
    given = {"max_depth": 5, "max_cat_to_onehot": 1, "nthread": 2}
    forest = bitvec.convert(xgb.train(given, rows, 10))
    with TemporaryDirectory() as folder:
        return onnx.load(bitvec.export(forest, Path(folder) / "forest.onnx", form="tree_ensemble"))


def _built(
    name: str,
    table: Callable[[], Table],
    version: int,
    modes: tuple[str, ...],
    *,
    aggregate: str = "SUM",
    transform: str = "NONE",
    classes: bool = False,
    double: bool = False,
    missing: bool = False,
) -> Case:
    """Train a forest and write it as one operator, its tests by the modes in turn."""
    kind = ENSEMBLE if version == 5 else CLASSIFIER if classes else REGRESSOR

    dtype = np.float64 if double else np.float32

    def make(part: Table) -> Any:
        estimator = RandomForestClassifier if classes else RandomForestRegressor
        # A leaf of version 5 has one weight, so each of its trees answers for one class.
        n_trees = 2 * np.unique(part.y).size if classes and version == 5 else 6
        forest = estimator(n_trees, max_depth=5, random_state=0).fit(part.codes, part.y)
        nodes = nodes_of([tree.tree_ for tree in forest.estimators_], part, modes, dtype)
        if version == 5:
            given = by_positions(nodes) | {
                "n_targets": nodes.weight.shape[1],
                "aggregate_function": AGGREGATES.index(aggregate),
                "post_transform": TRANSFORMS.index(transform),
            }
        elif classes:
            given = by_ids(nodes, "class") | {
                "classlabels_strings": [f"class {label}" for label in forest.classes_],
                "post_transform": transform,
            }
        else:
            given = by_ids(nodes, "target") | {
                "n_targets": 1,
                "aggregate_function": aggregate,
                "post_transform": transform,
            }
        return model(kind, version, given, part.frame.shape[1], dtype)

    options = [f"{kind} v{version}", f"post transform {transform}"]
    options += [f"aggregate {aggregate}"] * (kind != CLASSIFIER)
    options += ["labels of text"] * (kind == CLASSIFIER) + ["float64"] * double
    options += [mode for mode in modes if mode != MEMBER] + ["mixed modes"] * (len(modes) > 1)
    options += ["set membership"] * (MEMBER in modes)
    options += ["missing values"] * missing
    return _saved(name, table, make, tuple(options))
