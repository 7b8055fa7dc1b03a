"""Laws of damaged models: a clear error, or a forest that answers as its library does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fuzz.mutations import gently_damaged
from xgboost_binary import binary

import bitvec
from benchmarks.exactness import mutant_models
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError
from tests.models.samples import Sample


class Format(NamedTuple):
    """How models of a library are saved, and how it answers for a file.

    Parameters
    ----------
    library : str
        Of `mutant_models`, whose models are damaged.
    package : str
        That has to be installed.
    answer : str
        Text of a function `answer(path, X)`, which returns arrays by the names of `ANSWERS`.
    names, more : tuple of str
        The models, all if none is named, and those of the package's catalogue beside them.
    missing, infinite, codes : bool
        Whether rows hold NaN, infinities, and in the last column whole numbers alone.
    least : float
        The part of the files that convert which the library reads too.
    count, seconds : int
        How many files are damaged, and the processor time that one may take the library.
    """

    library: str
    package: str
    suffix: str
    save: Callable[[Any, Path], object]
    answer: str
    names: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    missing: bool = True
    infinite: bool = False
    codes: bool = True
    least: float = 0.5
    count: int = 100
    seconds: int = 1


def _as_binary(model: Any, path: Path) -> None:
    model.save_model(path.with_suffix(".json"))
    path.write_bytes(binary(json.loads(path.with_suffix(".json").read_bytes())))
    path.with_suffix(".json").unlink()


def _with_texts(model: Any, path: Path) -> None:
    from tests.models.catboost import Model, pool

    rows = pool(Model(), Sample(*mutant_models.rows(), (2,)))
    model.save_model(str(path), format="json", pool=rows)


def _skops(model: Any, path: Path) -> None:
    import skops.io

    skops.io.dump(model, path)


XGBOOST = """
import xgboost

def answer(path, X):
    with open(path, "rb") as file:
        model = xgboost.Booster({"nthread": 1}, model_file=bytearray(file.read()))
    rows = xgboost.DMatrix(X)
    return {"raw": model.predict(rows, output_margin=True, validate_features=False)}
"""
# No installed xgboost reads the old format; treelite says where rows end.
OLD_XGBOOST = """
import treelite

def answer(path, X):
    model = treelite.frontend.load_xgboost_model_legacy_binary(path)
    return {"leaf": treelite.gtil.predict_leaf(model, X, nthread=1)}
"""
LIGHTGBM = """
import lightgbm

def answer(path, X):
    model = lightgbm.Booster(model_file=path)
    return {"sum": model.predict(X, raw_score=True, num_threads=1)}
"""
CATBOOST = """
import catboost
from bitvec.converters.catboost import oracle as oracles

plain = oracles._loaded
def loaded(library, path, converted):
    # What CatBoost itself reads, before it is given the decimals to the last bit.
    global own
    own = np.asarray(library.CatBoost().load_model(str(path), format="json").get_leaf_values())
    return plain(library, path, converted)
oracles._loaded = loaded

def answer(path, X):
    asked = oracles.oracle_of(path)
    return {"raw": asked.raw(X), "exit": asked.leaf_ids(X), "values": own}
"""
TREELITE = """
import treelite

def answer(path, X):
    with open(path, "rb") as file:
        model = treelite.Model.deserialize_bytes(file.read())
    raw = treelite.gtil.predict(model, X, nthread=1, pred_margin=True)
    return {"padded": raw, "leaf": treelite.gtil.predict_leaf(model, X, nthread=1)}
"""
SKLEARN = """
import skops.io
from bitvec.converters.sklearn.oracle import oracle_of

def answer(path, X):
    asked = oracle_of(path)
    return {"raw": asked.raw(X), "label": asked.predict(X)}
"""
ONNX = """
import onnxruntime
from bitvec.converters.onnx.model_oracle import oracle_of

def answer(path, X):
    asked = oracle_of(path)
    given = {"rounded": asked.raw(X)}
    if asked.predict is not None:
        predicted = np.asarray(asked.predict(X))
        given["class"] = predicted.astype(str) if predicted.dtype == object else predicted
    return given
"""
YDF = """
import ydf
from bitvec.converters.ydf.oracle import oracle_of

def answer(path, X):
    return {"raw": oracle_of(path).raw(X)}
"""

BOOSTED = {"library": "xgboost", "package": "xgboost", "save": lambda m, path: m.save_model(path)}
FORMATS = {
    "xgboost JSON": Format(suffix=".json", answer=XGBOOST, **BOOSTED),
    "xgboost UBJSON": Format(suffix=".ubj", answer=XGBOOST, **BOOSTED),
    "xgboost binary": Format(
        suffix=".bin",
        answer=OLD_XGBOOST,
        # Neither codes nor vector leaves nor several base scores.
        names=("dart", "reg:gamma, base score estimated", "classifier of two"),
        **{**BOOSTED, "package": "treelite", "save": _as_binary},
    ),
    "LightGBM": Format(
        "LightGBM",
        "lightgbm",
        ".txt",
        lambda model, path: getattr(model, "booster_", model).save_model(path),
        LIGHTGBM,
    ),
    "CatBoost": Format(
        "CatBoost",
        "catboost",
        ".json",
        _with_texts,
        CATBOOST,
        infinite=True,
        least=0.9,
        count=150,
        seconds=5,
    ),
    "treelite": Format(
        "treelite",
        "treelite",
        ".tl",
        lambda model, path: model.serialize(str(path)),
        TREELITE,
        more=("targets of 2 and 3, leaf vectors, float64", "mean, trees of one class, float32"),
        infinite=True,
        codes=False,
        least=0.9,
        count=250,
    ),
    "skops": Format(
        "scikit-learn",
        "skops",
        ".skops",
        _skops,
        SKLEARN,
        names=(
            *("DecisionTreeRegressor", "ExtraTreesClassifier, text labels"),
            *("GradientBoostingClassifier, text labels", "AdaBoostRegressor, loss=linear"),
            "HistGradientBoostingClassifier, two, codes",
            "BaggingRegressor, estimator=DecisionTreeRegressor(max_depth=2)",
            "IsolationForest, max_samples=8",
        ),
        missing=False,
        count=50,
        seconds=5,
    ),
    "ONNX": Format(
        "ONNX",
        "onnxruntime",
        ".onnx",
        lambda model, path: path.write_bytes(model.SerializeToString()),
        ONNX,
        infinite=True,
        codes=False,
        count=250,
    ),
    "YDF": Format("YDF", "ydf", "", lambda model, path: model.save(str(path)), YDF, seconds=5),
}

ASK = """
import os, resource, signal, sys, warnings
import numpy as np
{answer}
warnings.simplefilter("ignore")
np.seterr(all="ignore")
for rows in sorted(os.listdir(sys.argv[1])):
    if rows.endswith(".X.npy"):
        child = os.fork()  # what a library does not check may crash it
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))  # or hang it
            signal.alarm(60)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            try:
                path = os.path.join(sys.argv[1], rows.removesuffix(".X.npy"))
                np.savez(path + ".npz", **answer(path, np.load(path + ".X.npy")))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
"""
POOL = [0, 0.5, 1, 2, 2.5, 31, 40, 70, -0.0, -1, -0.5, -0.25, 0.3, 1e30, 2.0**24]


def rows(form: Format, forest: Forest) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = 2 * rng.normal(size=(60, forest.n_features))
    put = rng.random(X.shape) < 0.5
    X[put] = rng.choice(POOL, int(put.sum()))
    if form.codes:
        X[:, 2:] = rng.integers(-1, 8, X[:, 2:].shape)
    for is_in, value in ((form.missing, np.nan), (form.infinite, np.inf), (form.infinite, -np.inf)):
        X[rng.random(X.shape) < 0.08 * is_in] = value
    return X.astype(np.float32).astype(forest.dtype)


def write_damaged(sound: Path, path: Path, rng: np.random.Generator) -> None:
    """Write a damaged copy of a file, or of a directory with one damaged file."""
    if sound.is_file():
        path.write_bytes(gently_damaged(sound.read_bytes(), sound.suffix, rng))
        return
    shutil.copytree(sound, path)
    parts = sorted(path.iterdir())
    sizes = np.sqrt([part.stat().st_size for part in parts])
    part = parts[rng.choice(len(parts), p=sizes / sizes.sum())]
    if rng.random() < 0.01:
        part.unlink()
    else:
        part.write_bytes(gently_damaged(part.read_bytes(), part.suffix, rng))


def converted(path: Path) -> Forest | None:
    """Convert a damaged file, or refuse it by an error that bitvec raises on purpose."""
    try:
        return bitvec.convert(path)
    except (FileFormatError, InvalidForestError, UnsupportedModelError) as error:
        said = str(error)
    assert not re.search(r"\n|(?<!\.)\. ", said), said
    return None


def own_leaves(forest: Forest, exits: np.ndarray) -> np.ndarray:
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    return forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]


def is_output(forest: Forest) -> np.ndarray:
    """Mark outputs among those of treelite, which pads targets to as many classes."""
    groups = np.array(forest.output.groups)
    return (np.arange(groups.max()) < groups[:, None]).ravel()


def sums(forest: Forest, given: np.ndarray) -> np.ndarray:
    """Return the means of a random forest, of whose sums LightGBM tells."""
    given = given.reshape(len(given), -1)
    return given if forest.output.divisor is None else given / forest.output.divisor


def leaf_values(given: np.ndarray) -> np.ndarray:
    # CatBoost reads decimals to within 2 ulp, and whole numbers beyond 2**53 as 0.
    return np.sort(np.where(np.abs(given) <= 2.0**53, given, 0).ravel())


def assert_answers(forest: Forest, X: np.ndarray, given: dict[str, np.ndarray]) -> None:
    """The library's answers are those of the forest, bit for bit."""
    exits, raw = reference.exit_leaves(forest, X), reference.raw(forest, X)
    for name, value in given.items():
        if name == "values":
            want = leaf_values(forest.leaves.v)
            np.testing.assert_allclose(np.sort(value), want, rtol=1e-15, atol=5e-324)
        elif name in ("leaf", "exit"):
            own = exits if name == "exit" else own_leaves(forest, exits)
            np.testing.assert_array_equal(own, value.reshape(own.shape))
        elif name in ("label", "class"):
            if forest.output.classes is not None if name == "class" else np.isfinite(raw).all():
                labels = transforms.predictions(forest.output, raw)
                labels = labels.astype(str) if labels.dtype == object else labels
                np.testing.assert_array_equal(labels, value.reshape(labels.shape))
        else:
            told = value.reshape(len(X), -1)
            if name == "padded":
                told = told[:, is_output(forest)]
            elif name == "sum":
                told = sums(forest, told)
            got = raw.astype(told.dtype) if name == "rounded" else raw
            np.testing.assert_array_equal(got, told.reshape(got.shape))


def fuzz(folder: Path, form: Format, count: int, seed: int) -> None:
    """Convert damaged files; where the library reads them too, it must answer as the forests do."""
    rng = np.random.default_rng(seed)
    (sound := folder / "sound").mkdir()
    models = mutant_models.models(form.library)
    makers = [models[name] for name in form.names or models]
    if form.more:
        trained = import_module(f"tests.models.{form.package}").trained
        makers += [partial(trained, name) for name in form.more]
    originals = [sound / f"{number}{form.suffix}" for number in range(len(makers))]
    for make, path in zip(makers, originals, strict=True):
        form.save(make(), path)
    forests: dict[Path, Forest] = {}
    for index in range(len(originals) + count):
        path = folder / f"{index:05d}{form.suffix}"
        original = originals[index % len(originals)]
        if index >= len(originals):
            write_damaged(original, path, rng)
        else:
            (shutil.copytree if original.is_dir() else shutil.copy)(original, path)
        forest = converted(path)
        assert forest is not None or index >= len(originals)
        if forest is not None:
            forests[path] = forest
            if forest.n_features <= 1000:
                np.save(f"{path}.X.npy", rows(form, forest))
    harmless = len(forests) - len(originals)
    assert count / 10 < harmless < count, "some damage must be harmless, and some must not"
    ask, one_thread = (
        ASK.format(answer=form.answer, seconds=form.seconds),
        {**os.environ, "OMP_NUM_THREADS": "1"},
    )
    subprocess.run([sys.executable, "-c", ask, str(folder)], env=one_thread, check=True)
    compared = 0
    for number, (path, forest) in enumerate(forests.items()):
        answer = Path(f"{path}.npz")
        if answer.exists():
            with np.errstate(all="ignore"), np.load(answer) as given:
                assert_answers(forest, np.load(f"{path}.X.npy"), dict(given))
            compared += 1
        else:
            assert number >= len(originals)
    assert compared > form.least * len(forests)


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="libraries are asked in forks")


@FORKS
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_models_are_refused_or_convert_exactly(name: str, tmp_path: Path) -> None:
    pytest.importorskip(FORMATS[name].package)
    fuzz(tmp_path, FORMATS[name], FORMATS[name].count // 2, 0)


@FORKS
@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_thousands_of_damaged_models_are_refused_or_convert_exactly(
    name: str, tmp_path: Path
) -> None:
    pytest.importorskip(FORMATS[name].package)
    fuzz(tmp_path, FORMATS[name], 20 * FORMATS[name].count, 1)
