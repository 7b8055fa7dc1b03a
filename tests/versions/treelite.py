"""Build treelite models of every option, and save them with the answers of treelite's inference.

    python tests/versions/treelite.py FOLDER [--few]

Runs in an environment that has numpy and treelite, of any version from 4.0 on; models imported from
scikit-learn are made where it is installed. FOLDER then holds checkpoints, rows, raw scores and
transformed ones, and manifest.json. With `--few` one model in ten of those built here is made.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from pathlib import Path

from saving import Folder

# This file has the name of the library that it imports.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]

import numpy as np  # noqa: E402
import treelite  # noqa: E402
from treelite.model_builder import (  # noqa: E402
    Metadata,
    ModelBuilder,
    PostProcessorFunc,
    TreeAnnotation,
)

N_FEATURES, N_TREES, N_ROWS = 4, 6, 400
OPERATORS = ("<", "<=", ">", ">=", "==")
GRID = np.arange(-6, 7) / 2
SINGLE = {
    "identity": {},
    "signed_square": {},
    "hinge": {},
    "sigmoid": {"sigmoid_alpha": 0.7},
    "exponential": {},
    "exponential_standard_ratio": {"ratio_c": 3.5},
    "logarithm_one_plus_exp": {},
}
SEVERAL = {"identity_multiclass": {}, "softmax": {}, "multiclass_ova": {"sigmoid_alpha": 0.7}}


def tree(rng, operators, width, *, categories):
    """Draw the nodes of a tree, as arguments of the builder's tests and leaves."""
    nodes, waiting = [{}], [0]
    for _ in range(int(rng.integers(1, 12))):
        at = waiting.pop(int(rng.integers(len(waiting))))
        test = {
            "feature_id": int(rng.integers(N_FEATURES)),
            "default_left": bool(rng.integers(2)),
            "left_child_key": len(nodes),
            "right_child_key": len(nodes) + 1,
        }
        if categories and rng.random() < 0.5:
            chosen = rng.choice(70, int(rng.integers(0, 9)), replace=False)
            test["category_list"] = sorted(chosen.tolist())
            test["category_list_right_child"] = bool(rng.integers(2))
        else:
            test["threshold"] = float(rng.choice(GRID))
            test["opname"] = str(rng.choice(operators))
        nodes[at] = test
        waiting += [len(nodes), len(nodes) + 1]
        nodes += [{}, {}]
    leaves = rng.normal(size=(len(nodes), width)).astype(np.float32)
    return [
        node or {"leaf": float(leaf[0]) if width == 1 else leaf.tolist()}
        for node, leaf in zip(nodes, leaves, strict=True)
    ]


def built(
    seed,
    dtype,
    *,
    operators=OPERATORS,
    categories=False,
    num_class=(1,),
    vectors=False,
    average=False,
    task="kRegressor",
    postprocessor="identity",
    **parameters,
):
    """Build a model whose trees answer for all outputs, or for one in turn."""
    rng = np.random.default_rng(seed)
    n_targets, most = len(num_class), max(num_class)
    outputs = [(t, c) for t, size in enumerate(num_class) for c in range(size)]
    chosen = [(-1, -1) if vectors else outputs[i % len(outputs)] for i in range(N_TREES)]
    shape = (n_targets, most) if vectors else (1, 1)
    builder = ModelBuilder(
        threshold_type=dtype,
        leaf_output_type=dtype,
        metadata=Metadata(N_FEATURES, task, average, n_targets, list(num_class), shape),
        tree_annotation=TreeAnnotation(
            N_TREES, [target for target, _ in chosen], [class_id for _, class_id in chosen]
        ),
        postprocessor=PostProcessorFunc(postprocessor, **parameters),
        # Halves of whole numbers: the builder reads its numbers from JSON to within an ulp.
        base_scores=(rng.integers(-4, 5, n_targets * most) / 2).tolist(),
    )
    for _ in range(N_TREES):
        builder.start_tree()
        width = shape[0] * shape[1]
        for key, node in enumerate(tree(rng, operators, width, categories=categories)):
            builder.start_node(key)
            if "leaf" in node:
                builder.leaf(node["leaf"])
            elif "category_list" in node:
                builder.categorical_test(**node)
            else:
                builder.numerical_test(**node)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def built_models():
    """Yield the options of models and the arguments that they are built of."""
    for dtype in ("float32", "float64"):
        for operator in OPERATORS:
            yield [dtype, operator], dtype, {"operators": (operator,)}
        yield [dtype, "category lists"], dtype, {"categories": True}
        for name, parameters in SINGLE.items():
            yield [dtype, name], dtype, {"postprocessor": name, **parameters}
        for name, parameters in SEVERAL.items():
            for vectors in (False, True):
                options = {"num_class": (3,), "vectors": vectors, "task": "kMultiClf"}
                kind = "leaf vectors" if vectors else "trees of one class"
                yield [dtype, name, kind], dtype, {**options, "postprocessor": name, **parameters}
        for num_class in ((1, 1), (2, 3)):
            for vectors in (False, True):
                name = "identity" if max(num_class) == 1 else "softmax"
                options = {"num_class": num_class, "vectors": vectors, "postprocessor": name}
                yield [dtype, "several targets"], dtype, options
        for vectors in (False, True):
            options = {"num_class": (3,), "vectors": vectors, "average": True, "task": "kMultiClf"}
            yield [dtype, "average"], dtype, {**options, "postprocessor": "identity_multiclass"}


def models(*, few):
    """Yield the options of each model, and how it is made."""
    for seed, (options, dtype, arguments) in enumerate(built_models()):
        yield options, partial(built, seed, dtype, **arguments)
    if few:
        return
    try:
        from sklearn import ensemble
    except ImportError:
        print("scikit-learn is not installed: none of its models is imported", file=sys.stderr)
        return
    rng = np.random.default_rng(0)
    X = rng.choice(GRID, (300, N_FEATURES))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=300)
    small = {"random_state": 0, "n_estimators": 5}
    for name in ("RandomForest", "ExtraTrees", "GradientBoosting", "HistGradientBoosting"):
        extra = {"random_state": 0, "max_iter": 5} if name.startswith("Hist") else small
        classifier = getattr(ensemble, f"{name}Classifier")(**extra)
        regressor = getattr(ensemble, f"{name}Regressor")(**extra)
        for model, target in ((classifier, y > 0), (classifier, np.digitize(y, [-1, 1]))):
            yield [name, "scikit-learn"], partial(imported, model, X, target)
        yield [name, "scikit-learn"], partial(imported, regressor, X, y)
    isolation = ensemble.IsolationForest(**small)
    yield ["IsolationForest", "scikit-learn"], partial(imported, isolation, X, None)


def imported(model, X, y):
    return treelite.sklearn.import_model(model.fit(X, y))


def rows(dtype):
    """Return rows of which a third of the values are special ones, or beside a threshold."""
    rng = np.random.default_rng(1)
    grid = GRID.astype(dtype)
    special = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan, np.nan]
    beside = [np.nextafter(grid, grid.dtype.type(side)) for side in (-np.inf, np.inf)]
    codes = [*range(0, 72, 7), 63, 64, 69, 70, 0.5, -0.5, 2.7, 2.0**24, 2.0**33]
    values = np.concatenate([*beside, np.array([*special, *codes], dtype)])
    X = rng.choice(grid, (N_ROWS, N_FEATURES))
    put = rng.random(X.shape) < 0.4
    X[put] = rng.choice(values, int(put.sum()))
    return X


def main(path, *, few):
    folder = Folder(path, f"treelite {treelite.__version__}")
    for options, make in islice(models(few=few), 0, None, 10 if few else 1):
        model = make()
        header = model.get_header_accessor()
        dtype = {2: "float32", 3: "float64"}[int(header.get_field("threshold_type")[0])]
        num_class = header.get_field("num_class")
        is_output = np.arange(max(num_class)) < np.array(num_class)[:, None]
        X = rows(dtype)

        def answer(X=X, model=model, is_output=is_output, **kind):
            found = treelite.gtil.predict(model, X, nthread=1, **kind)
            if len(found) != len(X):  # 4.0 puts targets first
                found = found.swapaxes(0, 1)
            return found.reshape(len(X), *is_output.shape)[:, is_output]

        # It computes the softmax of a float64 model in float32.
        narrow = dtype == "float64" and header.get_field("postprocessor") == "softmax"
        file = folder.name(".tl")
        model.serialize(str(file))
        folder.add(file, X, answer(pred_margin=True), None if narrow else answer(), options)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])
