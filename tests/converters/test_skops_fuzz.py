"""Laws of damaged .skops files: a clear error, or a forest that answers as scikit-learn does."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeRegressor

from bitvec.converters.sklearn.read import convert
from bitvec.core import reference, transforms
from bitvec.errors import BitvecError

skops_io = pytest.importorskip("skops.io")

IRIS, Y = data.load_iris(return_X_y=True)
MODELS = {
    "tree": lambda: DecisionTreeRegressor(max_depth=3, random_state=0).fit(IRIS, Y),
    "forest": lambda: RandomForestClassifier(2, max_depth=3, random_state=0).fit(
        IRIS, np.array(["a", "b", "c"])[Y]
    ),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0).fit(
        IRIS, Y
    ),
    "histogram": lambda: HistGradientBoostingClassifier(
        max_iter=2, max_leaf_nodes=4, random_state=0, categorical_features=[0]
    ).fit(np.round(IRIS), Y > 0),
    "bagging": lambda: BaggingClassifier(n_estimators=2, max_features=0.5, random_state=0).fit(
        IRIS, Y
    ),
    "median": lambda: AdaBoostRegressor(n_estimators=3, random_state=0).fit(IRIS, Y),
    "isolation": lambda: IsolationForest(n_estimators=2, max_samples=9, random_state=0).fit(IRIS),
}

Parts = tuple[dict[str, Any], dict[str, bytes]]


def unpacked(path: Path) -> Parts:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(parts.pop("schema.json")), parts


def pack(path: Path, schema: Any, parts: dict[str, bytes]) -> None:
    """Write an archive whose checksums are right, whatever its content."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
        for name, content in parts.items():
            archive.writestr(name, content)


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return each member of the schema as its container and its key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found.append((value, key))
        if isinstance(item, dict | list):
            places(item, found)
    return found


NUMBERS = [0, 1, 2, 3, 4, 7, -1, -2, 255, 2**31, 2**62, 0.5, -0.5, 1e300, 1e-300, None, True, "x"]


def edit_schema(schema: Any, rng: np.random.Generator) -> None:
    """Replace, remove, repeat or exchange a member, or edit a value that stands as JSON text."""
    found = places(schema, [])
    texts = [(at, key) for at, key in found if key == "content" and isinstance(at[key], str)]
    kind = int(rng.integers(6))
    container, key = found[rng.integers(len(found))]
    if kind <= 2 and texts:
        container, key = texts[rng.integers(len(texts))]
        container[key] = json.dumps(NUMBERS[rng.integers(len(NUMBERS))])
    elif kind == 3:
        other, name = found[rng.integers(len(found))]
        container[key] = json.loads(json.dumps(other[name]))
    elif kind == 4 or isinstance(container, list):
        del container[key]
    else:
        container[key] = NUMBERS[rng.integers(len(NUMBERS))]


def edit_array(content: bytes, rng: np.random.Generator) -> bytes:
    """Change elements, bytes, the length, the order or the type of an array."""
    array = np.load(io.BytesIO(content)).copy()
    kind = int(rng.integers(6))
    flat = array.reshape(-1)
    if kind == 0 or flat.size == 0:
        edited = bytearray(content)
        edited[rng.integers(len(edited))] = rng.integers(256)
        return bytes(edited)
    if kind == 1:
        array = array[rng.permutation(len(array))] if array.ndim else array
    elif kind == 2:
        array = array[: rng.integers(len(array) + 1)] if array.ndim else array[None]
    elif kind == 3 and array.dtype.kind in "fiu":
        array = array.astype(rng.choice(["f4", "f8", "i4", "i8", "u1"]))
    else:
        at = rng.integers(flat.size, size=int(rng.integers(1, 3)))
        names = flat.dtype.names
        column = flat if names is None else flat[names[rng.integers(len(names))]]
        special = [0, 1, 2, 3, 5, -1, -2, 1e300, np.inf, -np.inf, np.nan, 0.5, 255]
        with np.errstate(all="ignore"):
            column[at] = np.array(special[rng.integers(len(special))]).astype(column.dtype)
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def mutated(original: Parts, rng: np.random.Generator) -> Parts:
    schema, parts = json.loads(json.dumps(original[0])), dict(original[1])
    for _ in range(int(rng.integers(1, 3))):
        name = list(parts)[rng.integers(len(parts))]
        kind = int(rng.integers(8))
        if kind <= 3:
            edit_schema(schema, rng)
        elif kind == 4:
            other = list(parts)[rng.integers(len(parts))]
            parts[name], parts[other] = parts[other], parts[name]
        else:
            parts[name] = edit_array(original[1][name], rng)
    return schema, parts


ASK = """
import os, signal, sys, warnings
import numpy as np
import skops.io  # the libraries, once for all children
from bitvec.converters.sklearn.oracle import oracle_of

folder = sys.argv[1]
X = np.load(folder + "/X.npy")
warnings.simplefilter("ignore")
np.seterr(all="ignore")
for name in sorted(os.listdir(folder)):
    if name.endswith(".skops"):
        child = os.fork()  # scikit-learn follows what it finds, so some files could crash it
        if child == 0:
            signal.alarm(10)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                asked = oracle_of(folder + "/" + name)
                np.savez(folder + "/" + name + ".npz", raw=asked.raw(X), label=asked.predict(X))
            except Exception:
                pass
            os._exit(0)
        os.waitpid(child, 0)
"""


def fuzz(folder: Path, count: int, seed: int) -> None:
    """Convert damaged files; where scikit-learn answers for them, it must answer as the forests."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([IRIS[::9], np.round(IRIS[::7]), rng.normal(3, 3, (20, 4))])
    X = X.astype(np.float32).astype(np.float64)
    np.save(folder / "X.npy", X)
    originals = []
    for make in MODELS.values():
        skops_io.dump(make(), folder / "model")
        originals.append(unpacked(folder / "model"))
    (folder / "model").unlink()
    forests, sentences = {}, []
    for index in range(len(originals) + count):
        original = originals[index % len(originals)]
        schema, parts = original if index < len(originals) else mutated(original, rng)
        path = folder / f"{index}.skops"
        pack(path, schema, parts)
        try:
            forests[path] = convert(path)
        except BitvecError as error:
            sentences.append(str(error))
            path.unlink()
    assert [sentence for sentence in sentences if ". " in sentence] == []
    assert len(forests) >= len(originals) + count / 10, "some damage must be harmless"
    assert len(forests) < count, "and some must not"
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", ASK, str(folder)], env=one_thread, check=True)
    compared = 0
    for index, (path, forest) in enumerate(forests.items()):
        answer = path.with_name(path.name + ".npz")
        if not answer.exists():
            assert index >= len(originals)
            continue
        expected = np.load(answer, allow_pickle=False)
        raw = reference.raw(forest, X)
        assert np.array_equal(raw, expected["raw"], equal_nan=True), path
        with np.errstate(all="ignore"):
            label = transforms.predictions(forest.output, raw)
        if np.isfinite(raw).all():
            assert np.array_equal(label, expected["label"].reshape(label.shape)), path
        compared += 1
    assert compared > len(forests) / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="scikit-learn is asked in forks")
def test_damaged_files_are_refused_or_convert_exactly(tmp_path: Path) -> None:
    fuzz(tmp_path, 50, 0)


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="scikit-learn is asked in forks")
def test_thousands_of_damaged_files_are_refused_or_convert_exactly(tmp_path: Path) -> None:
    fuzz(tmp_path, 2500, 1)
