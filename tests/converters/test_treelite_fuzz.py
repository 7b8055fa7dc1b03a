"""Laws of damaged treelite checkpoints: a clear error, or a forest that answers as GTIL does."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError

treelite = pytest.importorskip("treelite")

from treelite.model_builder import (  # noqa: E402
    Metadata,
    ModelBuilder,
    PostProcessorFunc,
    TreeAnnotation,
)

from bitvec.converters.treelite.read import convert  # noqa: E402

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="treelite is asked in forks")
POOL = [0, 0.5, 1, 2, 2.5, 31, 40, 70, -0.0, -1, -0.5, 1e30, 2.0**24, np.nan, np.inf, -np.inf]


def built(dtype: str, num_class: tuple[int, ...], vectors: bool, average: bool) -> bytes:
    """Three trees of numeric tests and category lists, whose leaves are values or vectors."""
    n_targets, width = len(num_class), len(num_class) * max(num_class)
    all_or_first = -1 if vectors else 0
    shape = (n_targets, max(num_class)) if vectors else (1, 1)
    builder = ModelBuilder(
        threshold_type=dtype,
        leaf_output_type=dtype,
        metadata=Metadata(3, "kRegressor", average, n_targets, list(num_class), shape),
        tree_annotation=TreeAnnotation(3, [all_or_first] * 3, [all_or_first] * 3),
        postprocessor=PostProcessorFunc("identity"),
        base_scores=[0.25] * width,
    )
    rng = np.random.default_rng(width)
    for tree in range(3):
        builder.start_tree()
        tests: list[dict[str, Any]] = [
            {"feature_id": 0, "threshold": 0.5, "opname": ("<", ">=", "==")[tree]},
            {"feature_id": 1, "category_list": [0, 2, 40], "category_list_right_child": tree > 0},
        ]
        for key, test in enumerate(tests):
            children = {"left_child_key": 2 * key + 1, "right_child_key": 2 * key + 2}
            builder.start_node(2 * key)
            numeric = "threshold" in test
            add = builder.numerical_test if numeric else builder.categorical_test
            add(**test, **children, default_left=tree == 1)
            builder.end_node()
        for key in (1, 3, 4):
            leaf = rng.normal(size=width).tolist()
            builder.start_node(key)
            builder.leaf(leaf if vectors else leaf[0])
            builder.end_node()
        builder.end_tree()
    data: bytes = builder.commit().serialize_bytes()
    return data


def checkpoints() -> list[bytes]:
    """Small models with every field in use."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    fitted = ensemble.RandomForestClassifier(2, max_depth=3, random_state=0).fit(X, X[:, 0] > 0)
    return [
        built("float32", (1,), vectors=False, average=False),
        built("float64", (1,), vectors=False, average=True),
        built("float32", (3,), vectors=True, average=False),
        built("float64", (2, 1), vectors=True, average=False),
        treelite.sklearn.import_model(fitted).serialize_bytes(),
    ]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, repeat or overwrite some bytes; small numbers mostly, so that much remains readable."""
    at = int(rng.integers(12, len(data)))
    kind = int(rng.integers(0, 7))
    if kind == 0:
        return data[: int(rng.integers(0, len(data)))]
    if kind == 1:
        return data[:at] + data[at + int(rng.integers(1, 20)) :]
    if kind == 2:
        return data[:at] + data[max(0, at - int(rng.integers(1, 20))) :]
    edited = bytearray(data)
    if kind == 3:
        edited[at] ^= 1 << int(rng.integers(0, 8))
    elif kind == 4:  # a number of 4 or 8 bytes
        whole = int(rng.choice([-1, 0, 1, 2, 3, 5, 2**31 - 1]))
        edited[at : at + 4] = struct.pack("<i", whole)
    elif kind == 5:
        number = float(rng.choice([0.0, -1.5, 1e300, np.nan, np.inf]))
        edited[at : at + 8] = struct.pack("<d", number)
    else:
        for place in rng.integers(12, len(data), 3):
            edited[place] = rng.integers(0, 4)
    return bytes(edited)


def rows(n_features: int, dtype: np.dtype) -> np.ndarray:
    return np.random.default_rng(0).choice(POOL, (60, n_features)).astype(dtype)


ASK = """
import os, signal, sys
import numpy as np
import treelite

folder = sys.argv[1]
for name in sorted(os.listdir(folder)):
    if name.endswith(".tl"):
        child = os.fork()  # a damaged file may crash treelite
        if child == 0:
            signal.alarm(5)  # or hang it
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            path = folder + "/" + name
            with open(path, "rb") as file:
                model = treelite.Model.deserialize_bytes(file.read())
            X = np.load(path + ".X.npy")
            raw = treelite.gtil.predict(model, X, nthread=1, pred_margin=True)
            leaf = treelite.gtil.predict_leaf(model, X, nthread=1)
            np.savez(path + ".npz", raw=raw.reshape(len(X), -1), leaf=leaf)
            os._exit(0)
        os.waitpid(child, 0)
"""


def converted(path: Path) -> Forest | None:
    """Convert a damaged file, or refuse it by an error that bitvec raises on purpose."""
    try:
        return convert(path)
    except (FileFormatError, InvalidForestError, UnsupportedModelError):
        return None


def fuzz(folder: Path, count: int, seed: int) -> None:
    """Convert damaged files; treelite, asked in a child process, must answer as the forests do."""
    rng = np.random.default_rng(seed)
    originals = checkpoints()
    damaged = [mutated(originals[i % len(originals)], rng) for i in range(count)]
    forests = {}
    for index, data in enumerate([*originals, *damaged]):
        path = folder / f"{index}.tl"
        path.write_bytes(data)
        forest = converted(path)
        if forest is None or forest.n_features > 1000:
            path.unlink()
        else:
            forests[index] = forest
            np.save(f"{path}.X.npy", rows(forest.n_features, forest.dtype))
    assert all(index in forests for index in range(len(originals)))
    assert count / 10 < len(forests) < count, "some damage must be harmless, and some must not"
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", ASK, str(folder)], env=one_thread, check=True)
    compared = 0
    for index, forest in forests.items():
        answer = folder / f"{index}.tl.npz"
        if not answer.exists():
            continue
        expected = np.load(answer)
        X = rows(forest.n_features, forest.dtype)
        with np.errstate(all="ignore"):
            raw = reference.raw(forest, X)
        groups = forest.output.groups
        is_output = np.arange(max(groups)) < np.array(groups)[:, None]
        assert np.array_equal(raw, expected["raw"][:, is_output.ravel()], equal_nan=True), index
        exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
        assert forest.source is not None
        assert forest.source.leaf_id is not None
        assert np.array_equal(forest.source.leaf_id[exits], expected["leaf"]), index
        compared += 1
    assert compared > 0.9 * len(forests), "treelite must read what converts"


@FORKS
def test_damaged_checkpoints_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 250, 0)


@FORKS
@pytest.mark.full
def test_thousands_of_damaged_checkpoints_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 4000, 1)
