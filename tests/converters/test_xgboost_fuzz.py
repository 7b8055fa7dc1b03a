"""Laws of damaged xgboost files: a clear error, or a forest that answers as the library does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xgboost_binary import N_FEATURES, binary

from bitvec.converters.xgboost.read import convert
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError

xgb = pytest.importorskip("xgboost")


def boosters() -> list[Any]:
    """Small models with every part: codes, dart weights, classes, vector leaves, attributes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, N_FEATURES)).astype(np.float32)
    X[:, 2] = rng.integers(0, 12, 200)
    y = X[:, 0] + (X[:, 2] % 3 == 1)
    options: list[tuple[dict[str, Any], np.ndarray]] = [
        ({"objective": "binary:logistic"}, y > 0.5),
        (
            {"objective": "multi:softprob", "num_class": 3, "base_score": 0.5},
            np.digitize(y, (0, 1)),
        ),
        ({"booster": "dart", "rate_drop": 0.5}, y),
        ({"tree_method": "exact", "gamma": 5}, y),
        ({"max_cat_to_onehot": 1}, y),
        ({"multi_strategy": "multi_output_tree"}, np.stack([y, -y], axis=1)),
    ]
    made = []
    for option, label in options:
        codes = {"feature_types": ["q", "q", "c"], "enable_categorical": True}
        rows = xgb.DMatrix(X, label, **(codes if "max_cat_to_onehot" in option else {}))
        model = xgb.train({"max_depth": 2, "nthread": 1, **option}, rows, 3)
        model.set_attr(note="some text")
        made.append(model)
    return made


def originals(suffix: str) -> list[bytes]:
    if suffix != "bin":
        return [bytes(model.save_raw(suffix)) for model in boosters()]
    # The old binary format holds neither codes nor vector leaves.
    return [binary(json.loads(model.save_raw("json"))) for model in boosters()[:-2]]


ARRAY = re.compile(rb"\[\$[dlLU]#L(.{8})", re.DOTALL)
"""The head of an array of numbers in UBJSON, with its length."""
BOOSTER = re.compile(rb"gbtree|dart")
NUMBERS = [0, 1, 2, 3, 5, 7, 12, 255, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
FLOATS = [0.0, -0.0, 0.5, -1.0, 1e-45, 3e38, np.inf, -np.inf, np.nan]


def mutated(data: bytes, suffix: str, rng: np.random.Generator) -> bytes:
    """Cut, drop, repeat or overwrite some bytes; numbers mostly, so that much remains readable."""
    at = int(rng.integers(0, len(data)))
    kind = int(rng.integers(0, 10))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + int(rng.integers(1, 40)) :]
    if kind == 2:
        return data[:at] + data[max(0, at - int(rng.integers(1, 40))) :]
    edited = bytearray(data)
    if suffix == "json" or kind == 3:
        digits = [i for i, byte in enumerate(data) if 48 <= byte < 58]
        for place in rng.choice(digits, min(kind, 5) - 2):
            edited[place] = rng.choice([*b"0123456789012345678901234567890123456789-.eE"])
        return bytes(edited)
    for _ in range(1 + kind // 4):
        at = int(rng.integers(0, len(data)))
        if suffix == "ubj" and kind > 4 and (array := ARRAY.search(data, at)):
            size = int.from_bytes(array[1], "big")  # most have numbers of four bytes
            at = min(array.end() + int(rng.integers(0, size + 1)) * 4, len(data) - 1)
        if kind < 6:
            edited[at] = rng.integers(0, 256)
            continue
        order = ">" if suffix == "ubj" else "<"
        whole = np.array(rng.choice(NUMBERS), f"{order}u4").tobytes()
        part = np.array(rng.choice(FLOATS), f"{order}f4").tobytes()
        if suffix == "bin":  # there most fields are numbers of four bytes, after two names
            at -= (at - BOOSTER.search(data).end()) % 4
        edited[at : at + 4] = whole if kind < 8 else part
    return bytes(edited)


LIBRARY = """
import xgboost

def raw(data, X):
    model = xgboost.Booster({"nthread": 1}, model_file=bytearray(data))
    return model.predict(xgboost.DMatrix(X), output_margin=True, validate_features=False)
"""
TREELITE = """
import tempfile
import treelite

def raw(data, X):
    with tempfile.NamedTemporaryFile(suffix=".model") as file:
        file.write(data)
        file.flush()
        model = treelite.frontend.load_xgboost_model_legacy_binary(file.name)
    return treelite.gtil.predict_leaf(model, X, nthread=1)
"""
ASK = """
import os, signal, sys
import numpy as np
{answer}
folder = sys.argv[1]
X = np.load(folder + "/X.npy")
for name in sorted(os.listdir(folder)):
    if name.endswith(".model"):
        child = os.fork()  # what the library does not check may crash it
        if child == 0:
            signal.alarm(2)  # or hang it
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                with open(folder + "/" + name, "rb") as file:
                    answer = raw(file.read(), X)
                np.save(folder + "/" + name + ".npy", answer)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
"""


def converted(path: Path) -> Forest | None:
    """Convert a damaged file, or refuse it by an error that bitvec raises on purpose."""
    try:
        return convert(path)
    except (FileFormatError, InvalidForestError, UnsupportedModelError):
        return None


def leaf_ids(forest: Forest, X: np.ndarray) -> np.ndarray:
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    return forest.source.leaf_id[exits]


def fuzz(folder: Path, suffix: str, count: int, seed: int) -> None:
    """Convert damaged files; where the library reads them too, it must answer as the forests do."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, N_FEATURES)).astype(np.float32)
    X[:, 2] = rng.integers(-1, 14, 40)
    X[rng.random(X.shape) < 0.1] = np.nan
    np.save(folder / "X.npy", X)
    sound = originals(suffix)
    damaged = [mutated(sound[i % len(sound)], suffix, rng) for i in range(count)]
    forests = {}
    for index, data in enumerate([*sound, *damaged]):
        path = folder / f"{index}.model"
        path.write_bytes(data)
        forest = converted(path)
        if forest is None or forest.inputs.n_features != N_FEATURES:
            path.unlink()  # nothing to compare, or no rows of that width
        if forest is not None:
            forests[index] = forest
    assert all(index in forests for index in range(len(sound)))
    assert count / 10 < len(forests) < count, "some damage must be harmless, and some must not"
    ask = ASK.format(answer=TREELITE if suffix == "bin" else LIBRARY)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", ask, str(folder)], env=one_thread, check=True)
    compared = 0
    for index, forest in forests.items():
        answer = folder / f"{index}.model.npy"
        if answer.exists():
            expected = np.load(answer)
            with np.errstate(all="ignore"):
                got = leaf_ids(forest, X) if suffix == "bin" else reference.raw(forest, X)
            assert np.array_equal(got, expected.reshape(got.shape), equal_nan=True), index
            compared += 1
    assert compared > len(forests) / 2


def ready(suffix: str) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("libraries are asked in forks")
    if suffix == "bin":  # which no installed xgboost reads; treelite says where rows end
        pytest.importorskip("treelite")


@pytest.mark.parametrize("suffix", ["json", "ubj", "bin"])
def test_damaged_files_are_refused_or_convert_exactly(suffix: str, tmp_path: Path) -> None:
    ready(suffix)
    fuzz(tmp_path, suffix, 100, 0)


@pytest.mark.full
@pytest.mark.parametrize("suffix", ["json", "ubj", "bin"])
def test_thousands_of_damaged_files_are_refused_or_convert_exactly(
    suffix: str, tmp_path: Path
) -> None:
    ready(suffix)
    fuzz(tmp_path, suffix, 3000, 1)
