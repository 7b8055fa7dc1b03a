"""Models of treelite: imported from other libraries, or built of tests and leaves of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import treelite
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from tests.models.samples import Sample

VERSION = tuple(int(part) for part in treelite.__version__.split(".")[:2])
Tree = list[dict[str, Any]]
"""The nodes of a tree: arguments of the builder's tests, or `leaf`."""

OPERATORS = ("<", "<=", ">", ">=", "==")
LISTS = ("category lists of the left child", "category lists of the right child")
DTYPES = ("float32", "float64")
CLASSES, VECTORS = LAYOUTS = ("trees of one class", "leaf vectors")
SINGLE: dict[str, dict[str, float]] = {
    "identity": {},
    "signed_square": {},
    "hinge": {},
    "sigmoid": {"sigmoid_alpha": 0.7},
    "exponential": {},
    "exponential_standard_ratio": {"ratio_c": 3.5},
    "logarithm_one_plus_exp": {},
}
"""Postprocessors of one output, and their parameters."""
SEVERAL: dict[str, dict[str, float]] = {
    "identity_multiclass": {},
    "softmax": {},
    "multiclass_ova": {"sigmoid_alpha": 0.7},
    "max_index": {},
}
TASKS = {"sigmoid": "kBinaryClf", "exponential_standard_ratio": "kIsolationForest"}
"""Of the postprocessors that have one of their own."""


class Model(NamedTuple):
    """How a model is built of trees.

    Parameters
    ----------
    num_class : tuple of int
        Of each target.
    layout : str
        Of `LAYOUTS`: a tree answers for one output, the next in turn, or for all.
    """

    dtype: str
    postprocessor: str = "identity"
    parameters: Mapping[str, float] = MappingProxyType({})
    num_class: tuple[int, ...] = (1,)
    layout: str = CLASSES
    average: bool = False
    operators: tuple[str, ...] = OPERATORS
    lists: bool = True

    @property
    def supported(self) -> tuple[str, ...]:
        """The options of the format that this model has, beside those that its data bring."""
        n_targets, most = len(self.num_class), max(self.num_class)
        return (
            self.dtype,
            "built by the model builder",
            self.postprocessor,
            *(["operators < <= > >= =="] if self.operators == OPERATORS else []),
            *([VECTORS] if self.layout == VECTORS and most * n_targets > 1 else []),
            *([CLASSES] if self.layout == CLASSES and most > 1 else []),
            *(["several targets"] if n_targets > 1 else []),
            *(["averaged trees"] if self.average else []),
        )

    @property
    def outputs(self) -> list[tuple[int, int]]:
        """The target and class of each output."""
        return [(t, c) for t, size in enumerate(self.num_class) for c in range(size)]

    @property
    def width(self) -> int:
        """How many values a leaf has."""
        return len(self.num_class) * max(self.num_class) if self.layout == VECTORS else 1


def _built(dtype: str) -> dict[str, Model]:
    mean = Model(dtype, "sigmoid", {"sigmoid_alpha": 1.5}, average=True)
    return {
        **{f"operator {name}": Model(dtype, operators=(name,), lists=False) for name in OPERATORS},
        **{name: Model(dtype, name, given) for name, given in SINGLE.items()},
        **{
            f"{name}, {layout}": Model(dtype, name, given, (3,), layout)
            for name, given in SEVERAL.items()
            for layout in LAYOUTS
        },
        **{
            f"targets of {' and '.join(map(str, num_class))}, {layout}": Model(
                dtype, "identity" if max(num_class) == 1 else "softmax", {}, num_class, layout
            )
            for num_class in ((1, 1), (2, 3))
            for layout in LAYOUTS
        },
        **{
            f"mean, {layout}": Model(dtype, "identity_multiclass", {}, (3,), layout, average=True)
            for layout in LAYOUTS
        },
        "mean of sigmoid": mean,
        "mean of targets": Model(dtype, num_class=(1, 1), layout=VECTORS, average=True),
    }


MODELS: dict[str, Model] = {
    f"{name}, {dtype}": model for dtype in DTYPES for name, model in _built(dtype).items()
}
IMPORTED: dict[str, tuple[str, ...]] = {
    "sklearn": (
        *("RandomForestClassifier", "ExtraTreesClassifier, bool labels"),
        *("RandomForestRegressor", "RandomForestRegressor, targets"),
        # 4.0 asks for as many classes of each target.
        *(["RandomForestClassifier, classes"] if VERSION >= (4, 4) else []),
        "GradientBoostingClassifier",
        "GradientBoostingClassifier, two, loss=log_loss, text labels",
        "GradientBoostingRegressor, init=zero",
        "HistGradientBoostingRegressor, positive, loss=squared_error, codes",
        *("HistGradientBoostingRegressor, positive, loss=poisson", "IsolationForest"),
        *("HistGradientBoostingClassifier", "HistGradientBoostingClassifier, two, codes"),
    ),
    "xgboost": (
        # Fitted base scores are float64 after the link, beside trees of float32.
        *("reg:squarederror, base score estimated", "binary:logistic, base score given"),
        *("binary:logistic, base score estimated", "binary:logitraw, base score given"),
        *("count:poisson, base score estimated", "count:poisson, base score given"),
        *("binary:hinge, base score given", "multi:softmax, base score given"),
        *("multi:softprob, base score estimated", "targets", "vectors", "dart", "both"),
        *("sets, logistic", "sets, targets"),
    ),
    "lightgbm": (
        *("regression", "regression, square roots", "binary", "multiclass", "multiclassova"),
        *("cross_entropy_lambda", "binary, rf", "multiclass, rf", "regression, rf"),
        *("regression, zero as missing", "binary, sigmoid", "regression, one category"),
    ),
}
"""Models of the catalogues of other libraries, of those that treelite imports."""


def build(
    trees: list[Tree],
    *,
    dtype: str = "float64",
    n_features: int = 3,
    num_class: tuple[int, ...] = (1,),
    target: list[int] | None = None,
    class_id: list[int] | None = None,
    task: str = "kRegressor",
    average: bool = False,
    postprocessor: str = "identity",
    base_scores: list[float] | None = None,
    **parameters: float,
) -> Any:
    """Build a model; -1 of `target` and `class_id` stands for trees that answer for all."""
    target = [0] * len(trees) if target is None else target
    class_id = [0] * len(trees) if class_id is None else class_id
    shape = (len(num_class) if -1 in target else 1, max(num_class) if -1 in class_id else 1)
    builder: Any = ModelBuilder(
        threshold_type=dtype,
        leaf_output_type=dtype,
        metadata=Metadata(n_features, task, average, len(num_class), list(num_class), shape),
        tree_annotation=TreeAnnotation(len(trees), target, class_id),
        postprocessor=PostProcessorFunc(postprocessor, **parameters),
        base_scores=[0.0] * (len(num_class) * max(num_class)),
    )
    for tree in trees:
        builder.start_tree()
        for key, node in enumerate(tree):
            builder.start_node(key)
            if "leaf" in node:
                builder.leaf(node["leaf"])
            elif "category_list" in node:
                builder.categorical_test(**node)
            else:
                builder.numerical_test(**node)
            builder.end_node()
        builder.end_tree()
    model = builder.commit()
    if base_scores is not None:
        # The builder reads its numbers from JSON, to within an ulp of float64 only.
        model.get_header_accessor().set_field("base_scores", np.array(base_scores, np.float64))
    return model


def stump(left: object = 1.0, right: object = 2.0, **test: object) -> Tree:
    """Return a tree of one test, `x0 < 0.5` unless another is given."""
    test = {
        "feature_id": 0,
        "default_left": False,
        "left_child_key": 1,
        "right_child_key": 2,
    } | test
    if "category_list" not in test:
        test = {"threshold": 0.5, "opname": "<"} | test
    return [test, {"leaf": left}, {"leaf": right}]


GRID = np.arange(-6, 7) / 2
N_FEATURES, N_TREES = 4, 6


def drawn(model: Model, seed: int = 0) -> list[Tree]:
    """Draw trees of up to eleven tests on a grid, some of them of codes up to 70."""
    rng = np.random.default_rng(seed)
    return [_drawn_tree(model, rng) for _ in range(N_TREES)]


def _drawn_tree(model: Model, rng: np.random.Generator) -> Tree:
    nodes: Tree = [{}]
    waiting = [0]
    for _ in range(int(rng.integers(1, 12))):
        at = waiting.pop(int(rng.integers(len(waiting))))
        test: dict[str, Any] = {
            "feature_id": int(rng.integers(N_FEATURES)),
            "default_left": bool(rng.integers(2)),
            "left_child_key": len(nodes),
            "right_child_key": len(nodes) + 1,
        }
        if model.lists and rng.random() < 0.4:
            chosen = rng.choice(70, int(rng.integers(0, 9)), replace=False)
            test["category_list"] = sorted(chosen.tolist())
            test["category_list_right_child"] = bool(rng.integers(2))
        else:
            test["threshold"] = float(rng.choice(GRID))
            test["opname"] = str(rng.choice(model.operators))
        nodes[at] = test
        waiting += [len(nodes), len(nodes) + 1]
        nodes += [{}, {}]
    leaves = rng.normal(size=(len(nodes), model.width)).astype(np.float32)
    return [
        node or {"leaf": float(leaf[0]) if model.width == 1 else leaf.tolist()}
        for node, leaf in zip(nodes, leaves, strict=True)
    ]


def train(model: Model, trees: list[Tree] | None = None, n_features: int = N_FEATURES) -> Any:
    """Return a model of these trees, drawn ones if none are given, and of base scores."""
    trees = drawn(model) if trees is None else trees
    outputs, every = model.outputs, model.layout == VECTORS
    several = max(model.num_class) > 1
    chosen = [(-1, -1) if every else outputs[i % len(outputs)] for i in range(len(trees))]
    if model.width == 1 and every:  # a vector of one value is stored as a scalar
        chosen = [(0, 0)] * len(trees)
    sizes = len(model.num_class) * max(model.num_class)
    return build(
        trees,
        dtype=model.dtype,
        n_features=n_features,
        num_class=model.num_class,
        target=[target for target, _ in chosen],
        class_id=[class_id for _, class_id in chosen],
        task="kMultiClf" if several else TASKS.get(model.postprocessor, "kRegressor"),
        average=model.average,
        postprocessor=model.postprocessor,
        base_scores=(np.random.default_rng(1).integers(-4, 5, sizes) / 2).tolist(),
        **model.parameters,
    )


def imported(library: str, name: str, data: Sample | None = None, **more: Any) -> Any:
    """Return a model of another library's catalogue, imported."""
    catalogue = import_module(f"tests.models.{library}")
    made = (
        catalogue.train(catalogue.MODELS[name], data, **more) if data else catalogue.trained(name)
    )
    if library == "sklearn":
        return treelite.sklearn.import_model(made)
    return getattr(treelite.frontend, f"from_{library}")(made)


@cache
def trained(name: str) -> Any:
    """Return the model of this name; it is shared, so leave it as it is."""
    return train(MODELS[name])
