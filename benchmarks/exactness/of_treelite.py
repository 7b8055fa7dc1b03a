"""treelite: models imported from other libraries, and all that its builder can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import treelite
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table

ROWS = 3000
LISTS = ("category lists of the left child", "category lists of the right child")
OPERATORS = "operators < <= > >= =="
CLASSES, VECTORS = "trees of one class", "leaf vectors"
SCALAR = {
    "identity": "kRegressor",
    "signed_square": "kRegressor",
    "hinge": "kRegressor",
    "sigmoid": "kBinaryClf",
    "exponential": "kRegressor",
    "exponential_standard_ratio": "kIsolationForest",
    "logarithm_one_plus_exp": "kRegressor",
}
"""Postprocessors of one output, with a task that has them."""
PER_CLASS = ("identity_multiclass", "softmax", "multiclass_ova", "max_index")


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter

    frontend = "imported from xgboost"
    for name, table, parameters, more in (
        ("reg:squarederror on california", house, {}, ("identity",)),
        ("binary:logistic on adult", adult, {"objective": "binary:logistic"}, ("sigmoid",)),
        (
            "multi:softprob on covtype",
            cover,
            {"objective": "multi:softprob", "num_class": 7, "base_score": 0.5},
            ("softmax", CLASSES),
        ),
        (
            "two targets of california in one tree",
            house,
            {"multi_strategy": "multi_output_tree"},
            (VECTORS, "several targets", "identity"),
        ),
    ):
        lists = (LISTS[1],) if table is not cover and VECTORS not in more else ()
        options = ("float32", "Model", frontend, *more, *lists)
        yield _made(f"xgboost's {name}", table, _xgboost(parameters), options)
    frontend = "imported from LightGBM"
    for name, table, parameters, more in (
        ("regression on california", house, {}, ("identity", LISTS[0])),
        ("binary on adult", adult, {"objective": "binary"}, ("sigmoid", LISTS[0])),
        (
            "multiclass on covtype",
            cover,
            {"objective": "multiclass", "num_class": 7},
            ("softmax", CLASSES),
        ),
        (
            "forest on adult",
            adult,
            {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
            ("identity", "averaged trees", LISTS[0]),
        ),
    ):
        options = ("float64", "checkpoint", frontend, *more)
        yield _made(f"LightGBM's {name}", table, _lightgbm(parameters), options)
    frontend = "imported from scikit-learn"
    for estimator, table, more in (
        (
            RandomForestClassifier(8, max_depth=8, random_state=0),
            letter,
            (VECTORS, "averaged trees", "identity_multiclass"),
        ),
        (
            GradientBoostingClassifier(n_estimators=12, random_state=0),
            data.higgs,
            ("sigmoid",),
        ),
        (
            HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=15, random_state=0),
            adult,
            ("sigmoid",),
        ),
        (
            IsolationForest(n_estimators=12, random_state=0),
            cover,
            ("exponential_standard_ratio", "averaged trees"),
        ),
    ):
        yield _made(
            f"scikit-learn's {type(estimator).__name__}",
            table,
            lambda part, estimator=estimator: treelite.sklearn.import_model(
                estimator.fit(part.codes, part.y)
            ),
            ("float64", "Model", frontend, *more),
        )
    for dtype, file in (("float32", "checkpoint"), ("float64", "Model")):
        built = (dtype, file, "built by the model builder", OPERATORS)
        for postprocessor, task in SCALAR.items():
            average = postprocessor in ("exponential_standard_ratio", "sigmoid")
            table = adult if task == "kBinaryClf" else house
            yield _made(
                f"{postprocessor} of {dtype} on {table.__name__}",
                table,
                _builder(dtype, postprocessor, task, average=average),
                (*built, *LISTS, postprocessor, *(("averaged trees",) if average else ())),
            )
        layout = CLASSES if dtype == "float32" else VECTORS
        for postprocessor in PER_CLASS:
            yield _made(
                f"{postprocessor} of {dtype} on covtype, {layout}",
                cover,
                _builder(dtype, postprocessor, "kMultiClf", layout=layout),
                (*built, postprocessor, layout),
            )
        average = dtype == "float32"
        yield _made(
            f"two targets of california, {dtype}",
            house,
            _builder(dtype, "identity", "kRegressor", targets=2, average=average),
            (
                *(*built, *LISTS, "identity", "several targets", VECTORS),
                *(("averaged trees",) if average else ()),
            ),
        )


def _made(
    name: str, table: Callable[[], Table], make: Callable[[Table], Any], options: tuple[str, ...]
) -> Case:
    """Train on 3,000 rows, and serialize the model where its options say so."""

    def saved(folder: Path) -> Made:
        part = table().head(ROWS)
        model = make(part)
        if "Model" in options:
            return Made(model, part.codes)
        path = folder / "model.tl"
        model.serialize(path)
        return Made(path, part.codes)

    return Case(name, "treelite", options, saved)


def _xgboost(parameters: dict[str, Any]) -> Callable[[Table], Any]:
    given = {"max_depth": 5, "nthread": 2, "max_cat_to_onehot": 1} | parameters

    def make(part: Table) -> Any:
        kinds = ["c" if i in part.categorical else "float" for i in range(part.frame.shape[1])]
        y = np.unique(part.y, return_inverse=True)[1] if "num_class" in given else part.y
        if "multi_strategy" in given:  # xgboost grows such trees on numbers only
            kinds, y = ["float"] * len(kinds), np.column_stack([y, y**2])
        matrix = xgb.DMatrix(part.codes, y, feature_types=kinds, enable_categorical=True)
        return treelite.frontend.from_xgboost(xgb.train(given, matrix, 10))

    return make


def _lightgbm(parameters: dict[str, Any]) -> Callable[[Table], Any]:
    given = {"num_leaves": 20, "verbose": -1, "num_threads": 2, "cat_smooth": 1} | parameters

    def make(part: Table) -> Any:
        y = np.unique(part.y, return_inverse=True)[1] if "num_class" in given else part.y
        rows = lgb.Dataset(part.codes, y, categorical_feature=part.categorical)
        return treelite.frontend.from_lightgbm(lgb.train(given, rows, 10))

    return make


def _builder(
    dtype: str,
    postprocessor: str,
    task: str,
    *,
    layout: str = "",
    average: bool = False,
    targets: int = 1,
) -> Callable[[Table], Any]:
    """Return what trains a forest and builds it anew, with tests of every kind."""

    def make(part: Table) -> Any:
        classes = np.unique(part.y).size if layout else 1
        y = part.y if targets == 1 else np.column_stack([part.y, part.y**2])
        kind = _estimator(layout, targets)
        forest = kind(n_estimators=2 * classes if classes > 1 else 12, max_depth=5, random_state=0)
        forest.fit(part.codes, y)
        n_trees = len(forest.estimators_)
        one = layout == CLASSES
        builder: Any = ModelBuilder(
            threshold_type=dtype,
            leaf_output_type=dtype,
            metadata=Metadata(
                part.frame.shape[1],
                task,
                average,
                targets,
                [classes] * targets,
                (targets, 1 if one else classes),
            ),
            tree_annotation=TreeAnnotation(
                n_trees,
                [-1 if targets > 1 else 0] * n_trees,
                [t % classes for t in range(n_trees)]
                if one
                else [-1 if layout == VECTORS else 0] * n_trees,
            ),
            postprocessor=PostProcessorFunc(postprocessor, sigmoid_alpha=1.5, ratio_c=2.5),
            base_scores=[0.25] * (targets * classes),
        )
        said, listed = cycle(("<", "<=", ">", ">=", "==")), cycle(LISTS)
        for number, tree in enumerate(forest.estimators_):
            value = tree.tree_.value.reshape(tree.tree_.node_count, -1)
            leaf = value[:, [number % classes]] if one else value
            _build(builder, tree.tree_, leaf, part, np.dtype(dtype).type, said, listed)
        return builder.commit()

    return make


def _estimator(layout: str, targets: int) -> Any:
    if layout:
        return ExtraTreesClassifier if layout == CLASSES else RandomForestClassifier
    return ExtraTreesRegressor if targets > 1 else RandomForestRegressor


def _build(
    builder: Any,
    tree: Any,
    leaf: np.ndarray,
    part: Table,
    number: Any,
    said: Iterator[str],
    listed: Iterator[str],
) -> None:
    """Say each test `x <= threshold` with the next operator, or as the next list of codes."""
    builder.start_tree()
    for node, left, right in zip(count(), tree.children_left, tree.children_right, strict=False):
        builder.start_node(node)
        if left < 0:
            builder.leaf(leaf[node].tolist() if leaf.shape[1] > 1 else float(leaf[node, 0]))
            builder.end_node()
            continue
        column = int(tree.feature[node])
        is_list = column in part.categorical and np.isfinite(tree.threshold[node])
        how = next(listed if is_list else said)
        swapped = how in (">", ">=")
        where = {
            "feature_id": column,
            "default_left": bool(tree.missing_go_to_left[node]) != swapped,
            "left_child_key": int(right if swapped else left),
            "right_child_key": int(left if swapped else right),
        }
        if is_list:
            codes = np.arange(part.frame.iloc[:, column].nunique())
            below = codes <= tree.threshold[node]
            is_right = how == LISTS[1]
            named = codes[~below if is_right else below].tolist()
            builder.categorical_test(
                **where, category_list=named, category_list_right_child=is_right
            )
        else:
            threshold = number(tree.threshold[node])
            if how in ("<", ">="):
                threshold = np.nextafter(threshold, number(np.inf))
            elif how == "==":
                threshold = np.floor(threshold)
            builder.numerical_test(**where, threshold=float(threshold), opname=how)
        builder.end_node()
    builder.end_tree()
