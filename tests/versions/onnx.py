"""Build ONNX tree operators of every option, and save them with the answers of onnxruntime.

    python tests/versions/onnx.py FOLDER [--few]

Runs in an environment that has numpy, onnx and onnxruntime, of any version from 1.17 and 1.20 on;
files of skl2onnx are made where it is installed. FOLDER then holds files, rows, raw scores, labels
or transformed scores, and manifest.json. With `--few` one model in six is made.
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
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
N_FEATURES, N_TREES, N_ROWS = 3, 5, 400
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
LEAF, MEMBER = "LEAF", "BRANCH_MEMBER"
NUMBERS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", MEMBER)
"""The modes of version 5 in the order of their numbers."""
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""As onnxruntime numbers them, not as the standard does."""
GRID = np.arange(-4, 5) / 2


def graph(kind, version, element, attributes):
    """Return a model of one operator; arrays become tensors."""
    attributes = {
        name: numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    outputs = {"scores": element if kind == "TreeEnsemble" else TensorProto.FLOAT}
    if kind == "TreeEnsembleClassifier":
        texts = "classlabels_strings" in attributes
        outputs = {"label": TensorProto.STRING if texts else TensorProto.INT64, **outputs}
    node = helper.make_node(kind, ["X"], list(outputs), domain="ai.onnx.ml", **attributes)
    values = [helper.make_tensor_value_info(name, of, None) for name, of in outputs.items()]
    rows = helper.make_tensor_value_info("X", element, [None, N_FEATURES])
    return helper.make_model(
        helper.make_graph([node], "trees", [rows], values),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)],
        ir_version=8,
    )


def run(model, X):
    """Return what onnxruntime answers on one thread, by output."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: X}), strict=True))


def shape(rng):
    """Draw the children of the nodes of one tree; a leaf has none."""
    children, waiting = [None], [0]
    for _ in range(int(rng.integers(1, 9))):
        at = waiting.pop(int(rng.integers(len(waiting))))
        children[at] = (len(children), len(children) + 1)
        waiting += children[at]
        children += [None, None]
    return children


def by_ids(rng, dtype, modes, missing):
    """Draw the nodes of versions 1 to 4, and return them with the ids of the leaves."""
    fields = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    }
    leaves = []
    for tree in range(N_TREES):
        children = shape(rng)
        fields["nodes_treeids"] += [tree] * len(children)
        fields["nodes_nodeids"] += range(len(children))
        fields["nodes_featureids"] += rng.integers(0, N_FEATURES, len(children)).tolist()
        fields["nodes_modes"] += [LEAF if c is None else str(rng.choice(modes)) for c in children]
        for side, name in enumerate(("true", "false")):
            fields[f"nodes_{name}nodeids"] += [0 if c is None else c[side] for c in children]
        leaves += [(tree, node) for node, c in enumerate(children) if c is None]
    size = len(fields["nodes_treeids"])
    values = rng.choice(GRID, size).astype(dtype)
    if dtype == np.float64:
        fields["nodes_values_as_tensor"] = values
    else:
        fields["nodes_values"] = values.tolist()
    if missing:
        fields["nodes_missing_value_tracks_true"] = rng.integers(0, 2, size).tolist()
    return fields, leaves


def weighted(leaves, prefix, targets, weights):
    """Return what leaves add to targets, (n_leaves, n_each) both."""
    each = targets.shape[1]
    wide = weights.dtype == np.float64
    flat = weights.ravel()
    return {
        f"{prefix}_treeids": [tree for tree, _ in leaves for _ in range(each)],
        f"{prefix}_nodeids": [node for _, node in leaves for _ in range(each)],
        f"{prefix}_ids": targets.ravel().tolist(),
        f"{prefix}_weights{'_as_tensor' if wide else ''}": flat if wide else flat.tolist(),
    }


def regressor(seed, dtype, *, version=3, modes=("BRANCH_LEQ",), n_targets=1, missing=True, **extra):
    """Build a TreeEnsembleRegressor and a copy without its post-transform."""
    rng = np.random.default_rng(seed)
    fields, leaves = by_ids(rng, dtype, modes, missing)
    targets = np.tile(np.arange(n_targets), (len(leaves), 1))
    weights = rng.normal(size=targets.shape).astype(dtype)
    fields |= weighted(leaves, "target", targets, weights) | {"n_targets": n_targets} | extra
    return pair("TreeEnsembleRegressor", version, dtype, fields)


def classifier(seed, dtype, *, version=3, n_classes=3, words=False, signed=True, **extra):
    """Build a TreeEnsembleClassifier and a copy without its post-transform."""
    rng = np.random.default_rng(seed)
    fields, leaves = by_ids(rng, dtype, MODES, missing=True)
    targets = np.tile(np.arange(n_classes) if n_classes > 2 else [0], (len(leaves), 1))
    weights = (rng.integers(-8, 9, targets.shape) / 8).astype(dtype)
    weights = weights if signed else np.abs(weights)
    labels = [7, -3, 11, 0][:n_classes]
    named = {"classlabels_strings": ["", "é", "x y", "z"][:n_classes]} if words else {}
    fields |= weighted(leaves, "class", targets, weights)
    fields |= (named or {"classlabels_int64s": labels}) | extra
    return pair("TreeEnsembleClassifier", version, dtype, fields)


def ensemble(seed, dtype, *, modes=MODES, n_targets=1, aggregate="SUM", transform="NONE"):
    """Build a TreeEnsemble of version 5 and a copy without its post-transform."""
    rng = np.random.default_rng(seed)
    mode, feature, splits, members, missing, roots, weights, targets = (
        [],
        [],
        [],
        [],
        [],
        [],
        [],
        [],
    )
    children = []
    for tree in range(N_TREES):
        drawn = shape(rng)
        inner = {node: len(mode) + i for i, node in enumerate(n for n, c in enumerate(drawn) if c)}
        roots.append(len(mode))
        at = {}
        for node, below in enumerate(drawn):
            if below is None:
                at[node] = len(weights)
                targets.append((tree + node) % n_targets)
                weights.append(rng.normal())
        for node in inner:
            mode.append(str(rng.choice(modes)))
            feature.append(int(rng.integers(N_FEATURES)))
            splits.append(rng.choice(GRID))
            missing.append(int(rng.integers(2)))
            if mode[-1] == MEMBER:
                chosen = rng.choice(40, int(rng.integers(1, 6)), replace=False)
                members += [*sorted(chosen.tolist()), np.nan]
            children.append(
                [(inner[n], 0) if drawn[n] is not None else (at[n], 1) for n in drawn[node]]
            )
    fields = {
        "tree_roots": roots,
        "n_targets": n_targets,
        "nodes_featureids": feature,
        "nodes_modes": np.array([NUMBERS.index(name) for name in mode], np.uint8),
        "nodes_splits": np.array(splits, dtype),
        "nodes_missing_value_tracks_true": missing,
        "leaf_targetids": targets,
        "leaf_weights": np.array(weights, dtype),
        "aggregate_function": AGGREGATES.index(aggregate),
        "post_transform": TRANSFORMS.index(transform),
    }
    for side, name in enumerate(("true", "false")):
        fields[f"nodes_{name}nodeids"] = [pair[side][0] for pair in children]
        fields[f"nodes_{name}leafs"] = [pair[side][1] for pair in children]
    if members:
        fields["membership_values"] = np.array(members, dtype)
    return pair("TreeEnsemble", 5, dtype, fields)


def pair(kind, version, dtype, fields):
    element = TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT
    none = TRANSFORMS.index("NONE") if kind == "TreeEnsemble" else "NONE"
    bare = {**fields, "post_transform": none}
    return graph(kind, version, element, fields), graph(kind, version, element, bare)


def built_models():
    """Yield the options of each model, its dtype, and how it and its copy are made."""
    for dtype in (np.float32, np.float64):
        versions = (1, 3) if dtype == np.float32 else (3,)
        for version in versions:
            for modes in (*((mode,) for mode in MODES), MODES):
                options = [f"TreeEnsembleRegressor v{version}", ", ".join(modes)]
                make = partial(regressor, dtype=dtype, version=version, modes=modes)
                yield options, dtype, make
        for aggregate in AGGREGATES:
            for base in ({}, {"base_values": [0.25, -1.5]}):
                options = ["TreeEnsembleRegressor v3", aggregate, *base]
                extra = {"aggregate_function": aggregate, **base}
                make = partial(regressor, dtype=dtype, modes=MODES, n_targets=2, **extra)
                yield options, dtype, make
            for modes in ((MEMBER,), (*MODES, MEMBER)):
                options = ["TreeEnsemble v5", aggregate, ", ".join(modes)]
                make = partial(ensemble, dtype=dtype, modes=modes, aggregate=aggregate)
                yield options, dtype, make
        for transform in TRANSFORMS:
            options = [transform, "several targets"]
            extra = {"n_targets": 3, "post_transform": transform}
            make = partial(regressor, dtype=dtype, **extra)
            yield ["TreeEnsembleRegressor v3", *options], dtype, make
            make = partial(ensemble, dtype=dtype, n_targets=3, transform=transform)
            yield ["TreeEnsemble v5", *options], dtype, make
            for n_classes in (2, 3):
                if transform == "PROBIT" and n_classes == 2:
                    continue  # of one score: its inverse normal is NaN beside 0 to 1
                for words in (False, True):
                    kind = "texts" if words else "numbers"
                    options = ["TreeEnsembleClassifier v3", transform, f"{n_classes} {kind}"]
                    extra = {"n_classes": n_classes, "words": words, "post_transform": transform}
                    yield options, dtype, partial(classifier, dtype=dtype, **extra)
                    if n_classes == 2:
                        make = partial(classifier, dtype=dtype, signed=False, **extra)
                        yield [*options, "shares"], dtype, make
    yield (
        ["TreeEnsembleRegressor v1", "no missing values"],
        np.float32,
        (partial(regressor, dtype=np.float32, version=1, missing=False)),
    )


def rows(dtype):
    """Return rows of which a third of the values are special ones, or beside a threshold."""
    rng = np.random.default_rng(1)
    grid = GRID.astype(dtype)
    special = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan, np.nan]
    beside = [np.nextafter(grid, grid.dtype.type(side)) for side in (-np.inf, np.inf)]
    values = np.concatenate([*beside, np.array([*special, *range(41), 2.5, 1e9], dtype)])
    X = rng.choice(grid, (N_ROWS, N_FEATURES))
    put = rng.random(X.shape) < 0.4
    X[put] = rng.choice(values, int(put.sum()))
    return X


def built(folder, step):
    """Save models that onnx.helper made."""
    for seed, (options, dtype, make) in enumerate(islice(built_models(), 0, None, step)):
        if "TreeEnsemble v5" in options and RELEASE < (1, 24):
            continue  # 1.20 does not run it, 1.23 sends rows to other leaves
        model, bare = make(seed)
        X = rows(dtype)
        answer, raw = run(model, X), run(bare, X)["scores"]
        scores = answer["scores"]
        if "TreeEnsembleClassifier v3" in options:
            predict = answer["label"]
            predict = predict.astype(str) if predict.dtype == object else predict
            if raw.shape[1] == 2:  # one score, and what is left to 1, or its negative
                raw = raw[:, 1:] if "shares" in options else np.hstack([-raw[:, 1:], raw[:, 1:]])
        else:
            predict = scores
        soft = bool({"SOFTMAX", "SOFTMAX_ZERO"} & {*options})
        narrowed = dtype == np.float64 and (soft or "LOGISTIC" in options)
        if "PROBIT" in options or narrowed:
            # It cancels near one half, or takes exponentials in float32 of float64 scores.
            predict = predict if predict.dtype.kind in "iU" else None
        file = folder.name(".onnx")
        onnx.save(model, str(file))
        narrow = dtype == np.float64 and raw.dtype == np.float32
        options = [*options, np.dtype(dtype).name, f"onnxruntime {onnxruntime.__version__}"]
        folder.add(file, X, raw, predict, options, rounds=narrow)


def exported(folder):
    """Save models that skl2onnx exported."""
    try:
        import skl2onnx
        from sklearn import ensemble as sklearn_ensemble
        from sklearn import tree
    except ImportError:
        print("skl2onnx is not installed: no models of its are made", file=sys.stderr)
        return
    rng = np.random.default_rng(0)
    X = rng.choice(GRID, (300, N_FEATURES)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=300)
    words = np.array(["a", "b", "c"])
    kinds = {
        "DecisionTree": (tree, {"max_depth": 5}),
        "RandomForest": (sklearn_ensemble, {"n_estimators": 7}),
        "ExtraTrees": (sklearn_ensemble, {"n_estimators": 7}),
        "GradientBoosting": (sklearn_ensemble, {"n_estimators": 7}),
    }
    for name, (module, options) in kinds.items():
        for cuts in ((), (0,), (-1, 1)):
            kind = "Classifier" if cuts else "Regressor"
            model = getattr(module, name + kind)(random_state=0, **options)
            model.fit(X, words[np.digitize(y, cuts)] if cuts else y)
            settings = {"zipmap": False} if cuts else {}
            if cuts and name == "GradientBoosting":
                settings["raw_scores"] = True
            file = skl2onnx.to_onnx(
                model,
                X[:1],
                options={id(model): settings} if cuts else None,
                target_opset={"": 17, "ai.onnx.ml": 3},
            )
            asked = rows(np.float32)
            answers = list(run(file, asked).values())
            raw, predict = answers[-1], answers[0]
            if len(cuts) == 1 and name != "GradientBoosting":
                raw = raw[:, 1:]
            predict = predict.astype(str) if cuts else None
            path = folder.name(".onnx")
            onnx.save(file, str(path))
            folder.add(path, asked, raw, predict, [name, f"skl2onnx {skl2onnx.__version__}"])


def main(path, *, few):
    folder = Folder(path, f"onnx {onnx.__version__}")
    built(folder, 6 if few else 1)
    if not few:
        exported(folder)
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), few="--few" in sys.argv[2:])
