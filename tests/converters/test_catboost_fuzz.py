"""Laws of damaged CatBoost documents: a clear error, or a forest that answers as CatBoost does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitvec.converters.catboost.read import convert
from bitvec.core import reference
from bitvec.errors import BitvecError

cb = pytest.importorskip("catboost")


def documents(folder: Path) -> list[bytes]:
    """Small models with every section: both forms of trees, categories, missing values, classes."""
    rng = np.random.default_rng(0)
    X = np.empty((200, 4), object)
    X[:, :2] = rng.normal(size=(200, 2))
    X[:, 2] = rng.integers(0, 5, 200)
    X[:, 3] = rng.choice(["x", "y", ""], 200)
    y = X[:, 0].astype(float) + (X[:, 2] == 1) + (X[:, 3] == "x")
    X[::7, 1] = np.nan
    y[::7] -= 2
    options = [
        {"loss_function": "RMSE", "nan_mode": "Max"},
        {"loss_function": "Logloss", "grow_policy": "Lossguide", "max_leaves": 5},
        {"loss_function": "MultiClass", "grow_policy": "Depthwise", "class_names": [2, 0, 1]},
        {"loss_function": "MultiClass"},
    ]
    common = {"iterations": 3, "depth": 2, "one_hot_max_size": 9, "thread_count": 1, "verbose": 0}
    made = []
    for option in options:
        classes = {"Logloss": 2, "MultiClass": 3}.get(str(option["loss_function"]))
        label = y if classes is None else np.digitize(y, np.linspace(-0.3, 0.8, classes - 1))
        rows = cb.Pool(X, label, cat_features=[2, 3])
        model = cb.CatBoost({**common, **option, "allow_writing_files": False}).fit(rows)
        model.save_model(str(folder / "model.json"), format="json", pool=rows)
        made.append((folder / "model.json").read_bytes())
    return made


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, repeat or overwrite some bytes; mostly digits of what is read."""
    at = int(rng.integers(0, len(data)))
    kind = rng.integers(0, 9)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + int(rng.integers(1, 40)) :]
    if kind == 2:
        return data[:at] + data[max(0, at - int(rng.integers(1, 40))) :]
    if kind == 3:
        return data[:at] + bytes(rng.integers(0, 256, 3).tolist()) + data[at + 3 :]
    edited = bytearray(data)
    first = data.index(b'"features_info"')
    parts = [(first, data.index(b'"model_info"')), (data.index(b'trees":'), len(data))]
    start, end = parts[int(rng.integers(0, 2))]
    places = [i for i in range(start, end) if 48 <= data[i] < 58]
    for place in rng.choice(places, 1 if kind < 8 else 3):
        edited[place] = rng.choice([*b"0123456789012345678901234567890123456789-. e"])
    return bytes(edited)


ASK = """
import os, signal, sys
import numpy as np
import catboost
from bitvec.converters.catboost import oracle as oracles
from bitvec.converters.catboost.oracle import oracle_of

folder = sys.argv[1]
X = np.load(folder + "/X.npy")
plain = oracles._loaded
def loaded(library, path, converted):
    # What CatBoost itself reads, before it is given the decimals to the last bit.
    global own
    own = np.asarray(library.CatBoost().load_model(str(path), format="json").get_leaf_values())
    return plain(library, path, converted)
oracles._loaded = loaded
for name in sorted(os.listdir(folder)):
    if name.endswith(".fuzzed"):
        child = os.fork()  # a reader in C++ may crash
        if child == 0:
            signal.alarm(20)  # or hang
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            path = folder + "/" + name
            try:
                asked = oracle_of(path)
                raw, ids = asked.raw(X), asked.leaf_ids(X)
            except catboost.CatBoostError:
                os._exit(1)
            np.savez(path + ".npz", raw=raw, ids=ids, own=own)
            os._exit(0)
        os.waitpid(child, 0)
"""


def fuzz(folder: Path, count: int, seed: int) -> None:
    """Convert damaged documents; where CatBoost reads them too, it must answer as the forests."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(40, 4)) * 2).astype(np.float32)
    X[:, 2:] = rng.integers(-1, 6, (40, 2))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    np.save(folder / "X.npy", X)
    originals = documents(folder)
    damaged = [mutated(originals[i % len(originals)], rng) for i in range(count)]
    forests = {}
    for index, data in enumerate([*originals, *damaged]):
        path = folder / f"{index}.fuzzed"
        path.write_bytes(data)
        try:
            forests[index] = convert(path)
        except BitvecError:
            path.unlink()
    assert all(index in forests for index in range(len(originals)))
    assert count / 10 < len(forests) < count, "some damage must be harmless, and some must not"
    subprocess.run([sys.executable, "-c", ASK, str(folder)], check=True)
    compared = 0
    for index, forest in forests.items():
        answer = folder / f"{index}.fuzzed.npz"
        if not answer.exists():
            continue
        expected = np.load(answer)
        exits = reference.exit_leaves(forest, X)
        with np.errstate(all="ignore"):
            raw = reference.raw(forest, X)
        assert np.array_equal(raw, expected["raw"]), index
        assert np.array_equal(exits, expected["ids"]), index
        # CatBoost reads decimals to within 2 ulp, and whole numbers beyond 2**53 as 0.
        v = np.where(np.abs(forest.leaves.v) <= 2.0**53, forest.leaves.v, 0).ravel()
        assert np.allclose(np.sort(v), np.sort(expected["own"]), rtol=1e-15, atol=5e-324), index
        compared += 1
    assert compared > 0.9 * len(forests)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="CatBoost is asked in forks")
def test_damaged_documents_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 100, 0)


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="CatBoost is asked in forks")
def test_thousands_of_damaged_documents_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 3000, 1)
