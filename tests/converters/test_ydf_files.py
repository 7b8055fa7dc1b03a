"""Laws of damaged YDF directories: a clear error, or a forest that answers as YDF does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitvec.converters.ydf.read import convert
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError

ydf = pytest.importorskip("ydf")
ydf.verbose(0)

WORDS = ["w", "x", "y", "z"]
Files = dict[str, bytes]


def directories(folder: Path) -> list[Files]:
    """Small models of every kind, with numbers, categories, truth values and oblique nodes."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300)).astype(np.float32)
    c, d = rng.choice(WORDS, 300), rng.random(300) < 0.5
    y = a + (c == "x") + d
    a[rng.random(300) < 0.2] = np.nan
    data = {"a": a, "b": b, "c": c, "d": d}
    two, many = np.where(y > 0.7, "yes", "no"), np.digitize(y, [0, 1])
    boost, forest = ydf.GradientBoostedTreesLearner, ydf.RandomForestLearner
    small = {"num_trees": 2, "max_depth": 4}
    oblique = {**small, "split_axis": "SPARSE_OBLIQUE"}
    learners = [
        (boost(label="label", validation_ratio=0.0, **small), two),
        (boost(label="label", validation_ratio=0.0, **oblique), many),
        (boost(label="label", task=ydf.Task.REGRESSION, **small), y),
        (forest(label="label", winner_take_all=False, **small), two),
        (forest(label="label", allow_na_conditions=True, **oblique), many),
        (ydf.IsolationForestLearner(features=list(data), **small), two),
    ]
    made = []
    for index, (learner, label) in enumerate(learners):
        path = folder / f"original{index}"
        learner.train({**data, "label": label}).save(str(path))
        made.append({p.name: p.read_bytes() for p in sorted(path.iterdir())})
    return made


def mutated(files: Files, rng: np.random.Generator) -> Files:
    """Cut, swap, repeat or overwrite some bytes of one file, or drop the file."""
    sizes = np.array([len(content) for content in files.values()], float)
    name = list(files)[rng.choice(len(files), p=np.sqrt(sizes) / np.sqrt(sizes).sum())]
    data = files[name]
    at = int(rng.integers(0, len(data)))
    kind = rng.integers(0, 8)
    if kind == 0:
        data = data[:at]
    elif kind == 1:
        data = data[:at] + data[at + int(rng.integers(1, 20)) :]
    elif kind == 2:
        data = data[:at] + data[max(0, at - int(rng.integers(1, 20))) :]
    else:
        edited = bytearray(data)
        for place in rng.integers(0, len(data), 1 if kind < 7 else 3):
            edited[place] = rng.choice([edited[place] ^ 1 << rng.integers(0, 8), rng.integers(256)])
        data = bytes(edited)
    if rng.random() < 0.01:
        return {k: v for k, v in files.items() if k != name}
    return {**files, name: data}


ASK = """
import os, signal, sys
import numpy as np
import ydf
from bitvec.converters.ydf.oracle import oracle_of

folder = sys.argv[1]
X = np.load(folder + "/X.npy")
ydf.verbose(0)
for name in sorted(os.listdir(folder)):
    if name.startswith("damaged"):
        child = os.fork()  # YDF does not check all it reads, so some of them crash it
        if child == 0:
            signal.alarm(10)  # or hang it
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            np.save(folder + "/" + name + ".npy", oracle_of(folder + "/" + name).raw(X))
            os._exit(0)
        os.waitpid(child, 0)
"""


def converted(path: Path) -> Forest | None:
    """Convert a damaged directory, or refuse it by an error that bitvec raises on purpose."""
    try:
        return convert(path)
    except BitvecError:
        return None


def fuzz(folder: Path, count: int, asked: int, seed: int) -> None:
    """Convert damaged directories; where YDF reads them too, it must answer as the forests do."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    X[:, 2], X[:, 3] = rng.integers(-1, 7, 60), rng.random(60) < 0.5
    X[rng.random(X.shape) < 0.15] = np.nan
    np.save(folder / "X.npy", X)
    originals = directories(folder)
    forests: dict[str, Forest] = {}
    for index in range(count):
        path = folder / f"damaged{index:05d}"
        path.mkdir()
        files = originals[index % len(originals)]
        if index >= len(originals):
            files = mutated(files, rng)
        for name, content in files.items():
            (path / name).write_bytes(content)
        forest = converted(path)
        assert forest is not None or index >= len(originals)
        if forest is not None and len(forests) < asked:
            forests[path.name] = forest
        else:
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
    assert len(originals) < len(forests) < count, "some damage must be harmless, and some not"
    subprocess.run([sys.executable, "-c", ASK, str(folder)], check=True)
    compared = 0
    for name, forest in forests.items():
        answer = folder / f"{name}.npy"
        if answer.exists():
            with np.errstate(all="ignore"):
                got = reference.raw(forest, X)
            assert np.array_equal(got, np.load(answer), equal_nan=True), name
            compared += 1
    assert compared > len(forests) / 2


@pytest.mark.skipif(sys.platform == "win32", reason="YDF is asked in forks")
def test_damaged_directories_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 150, 40, 0)


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="YDF is asked in forks")
def test_thousands_of_damaged_directories_are_refused_or_convert_exactly(tmp_path):
    fuzz(tmp_path, 3_000, 1_000, 1)
