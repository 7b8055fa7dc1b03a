"""ONNX: files of exporters, and operators of every version, mode, aggregate and post-transform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
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
from skl2onnx.common.data_types import StringTensorType
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import bitvec
from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table
from tests.models.onnx import (
    CLASSIFIER,
    ENSEMBLE,
    MEMBER,
    MODELS,
    REGRESSOR,
    Model,
    Nodes,
    train,
)

ROWS = 3000
SCALED, COLUMNS = ("Imputer", "Scaler"), "columns cast, clipped, computed with, joined and chosen"
PREPARED: tuple[tuple[str, Callable[[], Any], tuple[str, ...]], ...] = (
    ("StandardScaler", StandardScaler, SCALED),
    (
        "RobustScaler and MinMaxScaler",
        lambda: make_pipeline(RobustScaler(), MinMaxScaler()),
        SCALED,
    ),
    ("MinMaxScaler, clipped", lambda: MinMaxScaler(clip=True), ("Imputer", COLUMNS)),
    ("MaxAbsScaler, chosen", lambda: make_pipeline(MaxAbsScaler(), SelectKBest(k=3)), SCALED),
)
ENCODERS: dict[str, Callable[[], Any]] = {
    "OneHotEncoder": lambda: OneHotEncoder(handle_unknown="ignore"),
    "OrdinalEncoder": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
}


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
    for table in (house, higgs):
        for name, steps, options in PREPARED:
            yield _saved(
                f"skl2onnx's {name} before a forest on {table.__name__}",
                table,
                partial(_prepared, steps),
                (f"{CLASSIFIER} v3", "exported by skl2onnx", *options),
            )
    for table in (adult, data.flights):
        for name, encoder in ENCODERS.items():
            yield _encoded(name, encoder, table)
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
    for number, (name, about) in enumerate(MODELS.items()):
        numbered = (adult, data.flights) if MEMBER in about.modes else (house, mushroom)
        several = cover if about.n_outputs > 2 else higgs
        table = numbered[number % 2] if about.kind != CLASSIFIER else several
        blanks = ("missing values",) if about.missing and table in (house, adult) else ()
        options = (*about.supported, *blanks)
        make = partial(_built, about)
        yield _saved(f"{name}, on {table.__name__}", table, make, options)
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


def _encoded(name: str, encoder: Callable[[], Any], table: Callable[[], Table]) -> Case:
    """Return a graph of two columns of texts, and the frame that it answers."""

    def made(_: Path) -> Made:
        part = table().head(ROWS)
        texts = part.frame.select_dtypes("category").iloc[:, :2].astype(str)
        texts.columns = ["a", "b"]
        trees = RandomForestClassifier(5, max_depth=6, random_state=0)
        pipeline = make_pipeline(encoder(), trees).fit(texts, part.y)
        types = [(column, StringTensorType([None, 1])) for column in texts]
        domains = {"": 17, "ai.onnx.ml": 3}
        return Made(skl2onnx.to_onnx(pipeline, initial_types=types, target_opset=domains), texts)

    kind = "OneHotEncoder" if name == "OneHotEncoder" else "LabelEncoder"
    title = f"skl2onnx's {name} before a forest on {table.__name__}"
    return Case(title, "ONNX", (f"{CLASSIFIER} v3", "exported by skl2onnx", kind, COLUMNS), made)


def _prepared(steps: Callable[[], Any], part: Table) -> Any:
    X = part.codes.astype(np.float32)
    y = (part.y > np.median(part.y)).astype(int)
    trees = RandomForestClassifier(5, max_depth=6, random_state=0)
    pipeline = make_pipeline(SimpleImputer(), steps(), trees).fit(X, y)
    domains = {"": 17, "ai.onnx.ml": 3}
    return skl2onnx.to_onnx(pipeline, X[:1], target_opset=domains)


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


def _built(about: Model, part: Table) -> Any:
    """Train a forest and write it as one operator, its tests by the modes in turn."""
    classes, n = about.kind == CLASSIFIER, about.n_outputs
    kind = RandomForestClassifier if classes else RandomForestRegressor
    y = np.unique(part.y, return_inverse=True)[1]
    shares = np.stack([y == number for number in range(n)], axis=1) * 1.0
    target = y % n if classes else part.y if n == 1 else shares
    # A leaf of version 5 has one weight, so each of its trees answers for one output.
    trees = kind(6, max_depth=5, random_state=0).fit(part.codes, target).estimators_
    nodes = nodes_of([tree.tree_ for tree in trees], part, about.modes, about.dtype)
    if about.width < nodes.weight.shape[1]:
        nodes = replace(nodes, weight=nodes.weight[:, 1:] - 0.5 * about.signed)
    nodes = replace(nodes, weight=nodes.weight.astype(about.dtype))
    return train(about, nodes, part.frame.shape[1])


def nodes_of(trees: Sequence[Any], part: Table, modes: Sequence[str], dtype: type) -> Nodes:
    """Say each test `x <= threshold` by the next mode.

    An equality asks for the threshold's whole part instead, and a set names all codes below; a test
    of numbers takes another mode.
    """
    said = cycle(modes)
    others = cycle([one for one in modes if one != MEMBER] or ["BRANCH_LEQ"])
    mode: list[str] = []
    members: list[float] = []
    for tree in trees:
        for left, column, threshold in zip(
            tree.children_left, tree.feature, tree.threshold, strict=True
        ):
            how = "LEAF" if left < 0 else next(said)
            is_set = column in part.categorical and 0 <= threshold < np.inf
            if how == MEMBER and not is_set:
                how = next(others)
            if how == MEMBER:
                members += [*np.arange(np.floor(threshold) + 1), np.nan]
            mode.append(how)
    size = [tree.node_count for tree in trees]
    left, right, feature, value, missing_left = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in (
            "children_left",
            "children_right",
            "feature",
            "threshold",
            "missing_go_to_left",
        )
    )
    by = np.array(mode)
    value = np.where(by == "LEAF", 0, value).astype(dtype)
    above = np.nextafter(value, dtype(np.inf))
    swapped = np.isin(by, ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"))
    value = np.where(np.isin(by, ("BRANCH_LT", "BRANCH_GTE")), above, value)
    value = np.where(np.isin(by, ("BRANCH_EQ", "BRANCH_NEQ")), np.floor(value), value)
    weight = np.concatenate([tree.value.reshape(tree.node_count, -1) for tree in trees])
    return Nodes(
        tree=np.repeat(np.arange(len(trees)), size),
        number=np.concatenate([np.arange(n) for n in size]),
        feature=np.maximum(feature, 0),
        mode=by,
        value=value,
        true=np.maximum(np.where(swapped, right, left), 0),
        false=np.maximum(np.where(swapped, left, right), 0),
        missing_true=(missing_left != 0) != swapped,
        weight=(weight / len(trees)).astype(dtype),
        members=members,
    )
