"""Laws of damaged LightGBM texts: a clear error, or a forest that answers as LightGBM does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitvec.converters.lightgbm.model_text import parse
from bitvec.converters.lightgbm.open import Opened
from bitvec.converters.lightgbm.read import forest_of
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError

lgb = pytest.importorskip("lightgbm")


def texts() -> list[bytes]:
    """Small models with every section: codes, linear leaves, several classes, constants."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 2] = rng.integers(0, 40, 200)
    y = X[:, 0] + (X[:, 2] % 3 == 1)
    common = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 5}
    options = [
        {"objective": "regression"},
        {"objective": "regression", "linear_tree": True},
        {"objective": "multiclass", "num_class": 3},
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    ]
    made = []
    for option in options:
        classes = {"multiclass": 3, "binary": 2}.get(option["objective"])
        label = y if classes is None else np.digitize(y, np.linspace(-0.3, 0.8, classes - 1))
        rows = lgb.Dataset(X, label, categorical_feature=[2])
        made.append(lgb.train({**common, **option}, rows, 2).model_to_string().encode())
    return made


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, swap, repeat or overwrite some bytes; digits mostly, so that much remains readable."""
    at = int(rng.integers(0, len(data)))
    kind = rng.integers(0, 6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + int(rng.integers(1, 40)) :]
    if kind == 2:
        return data[:at] + data[max(0, at - int(rng.integers(1, 40))) :]
    if kind == 3:
        return data[:at] + bytes(rng.integers(0, 256, 3).tolist()) + data[at + 3 :]
    digits = [i for i, byte in enumerate(data[: data.index(b"end of trees")]) if 48 <= byte < 58]
    edited = bytearray(data)
    for place in rng.choice(digits, 1 if kind == 4 else 3):
        edited[place] = rng.choice([*b"0123456789-. e"])
    return bytes(edited)


ASK = """
import os, signal, sys
import numpy as np
import lightgbm

folder = sys.argv[1]
X = np.load(folder + "/X.npy")
for name in sorted(os.listdir(folder)):
    if name.endswith(".txt"):
        child = os.fork()  # LightGBM does not check a text, so some of them crash it
        if child == 0:
            signal.alarm(2)  # or hang it
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            model = lightgbm.Booster(model_file=folder + "/" + name)
            np.save(folder + "/" + name + ".npy", model.predict(X, raw_score=True, num_threads=1))
            os._exit(0)
        os.waitpid(child, 0)
"""


def converted(data: bytes) -> Forest | None:
    """Convert a damaged text, or refuse it by an error that bitvec raises on purpose."""
    try:
        return forest_of(Opened("text", parse(data)))
    except (FileFormatError, InvalidForestError, UnsupportedModelError):
        return None


def fuzz(folder: Path, count: int, seed: int) -> None:
    """Convert damaged texts; where LightGBM reads them too, it must answer as the forests do."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * 2
    X[:, 2] = rng.integers(-1, 45, 40)
    X[rng.random(X.shape) < 0.1] = np.nan
    np.save(folder / "X.npy", X)
    originals = texts()
    damaged = [mutated(originals[i % len(originals)], rng) for i in range(count)]
    forests = {}
    for index, data in enumerate([*originals, *damaged]):
        forest = converted(data)
        if forest is not None:
            forests[index] = forest
            (folder / f"{index}.txt").write_bytes(data)
    assert all(index in forests for index in range(len(originals)))
    assert count / 10 < len(forests) < count, "some damage must be harmless, and some must not"
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", ASK, str(folder)], env=one_thread, check=True)
    compared = 0
    for index, forest in forests.items():
        answer = folder / f"{index}.txt.npy"
        if answer.exists():
            expected = np.load(answer).reshape(len(X), forest.n_outputs)
            if forest.output.divisor is not None:
                expected = expected / forest.output.divisor
            with np.errstate(all="ignore"):
                got = reference.raw(forest, X)
            assert np.array_equal(got, expected, equal_nan=True), index
            compared += 1
    assert compared > len(forests) / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="LightGBM is asked in forks")
def test_damaged_texts_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 150, 0)


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="LightGBM is asked in forks")
def test_thousands_of_damaged_texts_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 3000, 1)
