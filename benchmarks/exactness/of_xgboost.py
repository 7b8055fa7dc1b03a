"""xgboost: boosters, links, categories, base scores and file formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table

ROWS = 3000
SETS = ("categories one-hot", "categories by partition")
Target = Callable[[Table], np.ndarray]


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter

    for objective in ("binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic"):
        parameters = {"objective": objective, "max_cat_to_onehot": 8}
        options = (objective, "gbtree", "base_score estimated", "NaN", *SETS)
        yield _trained(f"{objective} on adult", adult, parameters, options, file=".ubj")
        yield _trained(
            f"{objective} on mushroom", data.mushroom, {"objective": objective}, options[:2]
        )
    for objective in (
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:pseudohubererror",
        "reg:absoluteerror",
        "reg:gamma",
        "reg:tweedie",
        "count:poisson",
        "survival:cox",
    ):
        parameters = {"objective": objective}
        options = (objective, "gbtree", "NaN")
        yield _trained(f"{objective} on california", house, parameters, options, file=".json")
        yield _trained(
            f"{objective} on california, base_score 0.4",
            house,
            parameters | {"base_score": 0.4, "max_depth": 3},
            (*options, "base_score scalar"),
            rounds=25,
        )
    for objective in ("rank:pairwise", "rank:ndcg", "rank:map"):
        for n_parallel in (1, 3):
            parameters = {"objective": objective, "num_parallel_tree": n_parallel}
            options = (objective, "gbtree", *(("num_parallel_tree",) if n_parallel > 1 else ()))
            yield _trained(
                f"{objective} on higgs, {n_parallel} parallel trees",
                data.higgs,
                parameters | {"subsample": 0.7},
                options,
                qid=lambda table: np.arange(len(table.y)) // 20,
            )
    for objective in ("multi:softprob", "multi:softmax"):
        for name, table, classes in (("covtype", cover, 7), ("letter", letter, 26)):
            yield _trained(
                f"{objective} on {name}",
                table,
                {"objective": objective, "num_class": classes, "base_score": 0.5},
                (objective, "gbtree", "base_score scalar"),
                target=lambda part: np.unique(part.y, return_inverse=True)[1],
                rounds=5,
            )
    for depth in (2, 6):
        yield _trained(
            f"survival:aft on california, depth {depth}",
            house,
            {"objective": "survival:aft", "max_depth": depth},
            ("survival:aft", "gbtree", "NaN"),
            label_lower_bound=lambda table: table.y,
            label_upper_bound=lambda table: table.y * 1.5,
        )
        yield _trained(
            f"three quantiles of california, depth {depth}",
            house,
            {
                "objective": "reg:quantileerror",
                "quantile_alpha": [0.1, 0.5, 0.9],
                "max_depth": depth,
            },
            ("reg:quantileerror", "gbtree", "base_score vector"),
            file=".json",
        )
        yield _trained(
            f"one tree for two targets of higgs, depth {depth}",
            data.higgs,
            {"multi_strategy": "multi_output_tree", "max_depth": depth},
            ("multi_output_tree", "reg:squarederror"),
            target=lambda table: np.column_stack([table.y, table.codes[:, 0]]),
            file=".ubj",
        )
        yield _trained(
            f"dart on adult, depth {depth}",
            adult,
            {
                "booster": "dart",
                "rate_drop": 0.3,
                "objective": "binary:logistic",
                "max_depth": depth,
            },
            ("dart", "binary:logistic", "categories by partition", "NaN"),
            file=".ubj",
        )
        yield _stopped(f"stopped early on adult, depth {depth}", adult, depth)
        yield _sliced(f"rounds 3 to 9 on california, depth {depth}", house, depth)
    folder = models / "xgboost"
    for path in sorted(folder.glob("*.bin")):
        yield _old(path, ("legacy binary file", "gbtree"))
    for path in sorted(folder.glob("*.json")):
        yield _old(path, ("JSON file", "gbtree"))


def _trained(
    name: str,
    table: Callable[[], Table],
    parameters: dict[str, Any],
    options: tuple[str, ...],
    *,
    target: Target | None = None,
    rounds: int = 12,
    file: str = "",
    **rows: Target,
) -> Case:
    """Train on 3,000 rows; `file` has the model saved and converted from there."""

    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        matrix = _matrix(part, part.y if target is None else target(part), rows)
        booster = xgb.train(_common(parameters), matrix, rounds)
        if not file:
            return Made(booster, part.codes)
        path = folder / f"model{file}"
        booster.save_model(path)
        return Made(path, part.codes)

    files = {".ubj": "UBJ file", ".json": "JSON file", "": None}
    saved = files[file]
    named = ("feature names and types", saved) if saved else ()
    return Case(name, "xgboost", (*options, *named), make)


def _stopped(name: str, table: Callable[[], Table], depth: int) -> Case:
    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        X, y, half = part.codes, part.y, len(part.y) // 2
        kinds = ["c" if i in part.categorical else "float" for i in range(X.shape[1])]
        model = xgb.XGBClassifier(
            n_estimators=60,
            learning_rate=1.0,
            max_depth=depth,
            early_stopping_rounds=3,
            feature_types=kinds,
            enable_categorical=True,
            n_jobs=2,
        )
        model.fit(X[:half], y[:half], eval_set=[(X[half:], y[half:])], verbose=False)
        return Made(model, X)

    return Case(name, "xgboost", ("best_iteration", "binary:logistic", "gbtree", "NaN"), make)


def _sliced(name: str, table: Callable[[], Table], depth: int) -> Case:
    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        booster = xgb.train(_common({"max_depth": depth}), _matrix(part, part.y, {}), 12)
        return Made(booster[3:9], part.codes)

    return Case(name, "xgboost", ("iteration range", "reg:squarederror", "gbtree", "NaN"), make)


def _old(path: Path, options: tuple[str, ...]) -> Case:
    """A model that others trained."""

    def make(folder: Path) -> Made:
        X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
        return Made(path, X)

    return Case(f"{path.name}, trained by others", "xgboost", options, make)


def _common(parameters: dict[str, Any]) -> dict[str, Any]:
    return {"max_depth": 5, "nthread": 2, "seed": 0} | parameters


def _matrix(part: Table, y: np.ndarray, rows: dict[str, Target]) -> xgb.DMatrix:
    kinds = ["c" if i in part.categorical else "float" for i in range(part.frame.shape[1])]
    given = {name: value(part) for name, value in rows.items()}
    label = None if "label_lower_bound" in given else y
    return xgb.DMatrix(
        part.codes,
        label,
        feature_names=[f"f_{name}" for name in part.frame.columns],
        feature_types=kinds,
        enable_categorical=True,
        **given,
    )
