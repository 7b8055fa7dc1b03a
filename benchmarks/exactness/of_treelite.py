"""treelite: the models of its catalogue on real data, imported and built anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.exactness.cases import NUMBERS, Case, Made, name_of_table, sample
from benchmarks.frames import Data
from tests.models.samples import Sample
from tests.models.treelite import (
    IMPORTED,
    LISTS,
    MODELS,
    VECTORS,
    Model,
    Tree,
    imported,
    train,
)

SOURCES = {
    "sklearn": ("scikit-learn", "float64"),
    "xgboost": ("xgboost", "float32"),
    "lightgbm": ("LightGBM", "float64"),
}
"""The name of a library, and the dtype of its models."""
FILES = ("Model", "checkpoint")


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    for number, (name, model) in enumerate(MODELS.items()):
        file, several = FILES[number % 2], len(model.outputs) > 1
        table = NUMBERS[0] if several else NUMBERS[number // 2 % 2]
        make = partial(_built, model, file, partial(sample, data, table))
        options = (*model.supported, *(LISTS if model.lists else ()), file)
        yield Case(f"{name}, on {table}", "treelite", options, make)
    numbered = ((library, name) for library, names in IMPORTED.items() for name in names)
    for number, (library, name) in enumerate(numbered):
        model = import_module(f"tests.models.{library}").MODELS[name]
        label = "number" if getattr(model, "codes", False) else model.label
        file, table = FILES[number % 2], name_of_table(label, number // 2)
        make = partial(_imported, library, name, file, partial(sample, data, table))
        source, dtype = SOURCES[library]
        options = (dtype, f"imported from {source}", file)
        yield Case(f"{source}'s {name}, on {table}", "treelite", options, make)


def _imported(library: str, name: str, file: str, data: Callable[[], Sample], folder: Path) -> Made:
    rows = data()
    return Made(_saved(imported(library, name, rows), file, folder), rows.X)


def _built(model: Model, file: str, data: Callable[[], Sample], folder: Path) -> Made:
    """Train a forest of scikit-learn, and build it anew with tests of every kind."""
    rows = data()
    edges = [np.linspace(0, 1, n + 1)[1:-1] for n in model.num_class]
    several = max(model.num_class) > 1
    y = [np.digitize(rows.y, np.quantile(rows.y, at)) if several else rows.y for at in edges]
    kind = RandomForestClassifier if several else RandomForestRegressor
    forest = kind(12, max_depth=5, random_state=0).fit(rows.X, np.stack(y, axis=1).squeeze())
    said, listed = cycle(model.operators), cycle(LISTS)
    trees = []
    for number, one in enumerate(forest.estimators_):
        target, class_id = model.outputs[number % len(model.outputs)]
        every = model.layout == VECTORS
        value = one.tree_.value if every else one.tree_.value[:, [target], [class_id]]
        trees.append(_tree(model, one.tree_, value.reshape(len(value), -1), rows, said, listed))
    made = train(model, trees, rows.X.shape[1])
    return Made(_saved(made, file, folder), rows.X)


def _saved(model: Any, file: str, folder: Path) -> Any:
    if file == "Model":
        return model
    model.serialize(folder / "model.tl")
    return folder / "model.tl"


def _tree(
    model: Model,
    tree: Any,
    leaf: np.ndarray,
    rows: Sample,
    said: Iterator[str],
    listed: Iterator[str],
) -> Tree:
    """Say each test `x <= threshold` with the next operator, or as the next list of codes."""
    nodes: Tree = []
    number = np.dtype(model.dtype).type
    for node, (left, right) in enumerate(zip(tree.children_left, tree.children_right, strict=True)):
        if left < 0:
            value = leaf[node].tolist()
            nodes.append({"leaf": value if len(value) > 1 else value[0]})
            continue
        column = int(tree.feature[node])
        is_list = model.lists and column in rows.categorical and np.isfinite(tree.threshold[node])
        how = next(listed if is_list else said)
        swapped = how in (">", ">=")
        test = {
            "feature_id": column,
            "default_left": bool(tree.missing_go_to_left[node]) != swapped,
            "left_child_key": int(right if swapped else left),
            "right_child_key": int(left if swapped else right),
        }
        if is_list:
            codes = np.unique(rows.X[:, column][~np.isnan(rows.X[:, column])]).astype(int)
            below = codes <= tree.threshold[node]
            is_right = how == LISTS[1]
            test["category_list"] = codes[~below if is_right else below].tolist()
            test["category_list_right_child"] = is_right
        else:
            threshold = number(tree.threshold[node])
            if how in ("<", ">="):
                threshold = np.nextafter(threshold, number(np.inf))
            elif how == "==":
                threshold = np.floor(threshold)
            test |= {"threshold": float(threshold), "opname": how}
        nodes.append(test)
    return nodes
