"""Run exported files in small runtimes, and compare the bits with those of onnxruntime.

    python tests/runtimes/compare.py [--only RUNTIME] [--own] [--drawn N] [--json FILE]

For each runtime of the table an environment is made under `.versions/`, in which `answers.py` runs
the files of a few models on the same rows: data, thresholds and the floats beside them, unknown
categories, missing values. Leaves are compared with the reference's, raw scores with onnxruntime's
on the same file. A runtime that cannot be installed here is skipped by name. Exits with 1 if one
does not answer with equal bits in a file that was written for it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import bitvec
from bitvec.converters.onnx.session import OnnxEngine, any_batch, open_session
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.description import describe
from bitvec.runtime.export.onnx_targets import TARGETS

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "versions"))
run = import_module("run")
sys.path[0] = str(HERE)
operators = import_module("operators")
sys.path.pop(0)  # the other scripts there have the names of libraries

FILES = run.CACHE / "runtimes"
OUTPUTS = ["raw", "leaves"]
RUNTIMES: dict[str, tuple[str, ...]] = {
    "tract": ("tract",),
    "tvm": ("apache-tvm", "onnx"),
    "opencv": ("opencv-python-headless>=5.0.0a0",),
    "mnn": ("MNN",),
    "ncnn": ("ncnn", "pnnx"),
    "litert": (
        *("onnx2tf", "ai-edge-litert", "tensorflow-cpu", "tf-keras"),
        *("onnx", "onnxsim", "onnx-graphsurgeon", "sng4onnx", "psutil"),
    ),
    "iree": ("iree-base-compiler[onnx]", "iree-base-runtime"),
    "onnx2torch": ("onnx2torch",),
}
"""By runtime, which is the name of a target, what is installed for it."""
USES_TORCH = ("onnx2torch",)
"""Installed beside the torch of this environment, in place of gigabytes of its own."""
FORMS: dict[str, dict[str, Any]] = {
    "edge": {"target": "edge"},
    "edge, finite": {"target": "edge", "finite": True},
    "traversal": {"target": "openvino", "form": "traversal"},
    "tensor": {"target": "openvino", "form": "tensor"},
    "tree_ensemble": {"form": "tree_ensemble"},
}
"""By name, options of the files that are tried beside those for the runtime itself."""


def models() -> Iterator[tuple[str, Forest, np.ndarray]]:
    """Yield names, forests and rows of their data."""
    import lightgbm
    import pandas
    import xgboost
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    model: Any = RandomForestClassifier(10, max_depth=5, random_state=0)
    yield "random forest", bitvec.convert(model.fit(X, y)), X
    X, y = load_breast_cancer(return_X_y=True)
    X[rng.random(X.shape) < 0.1] = np.nan
    yield "xgboost", bitvec.convert(xgboost.XGBClassifier(n_estimators=20).fit(X, y)), X
    X, y = load_diabetes(return_X_y=True)
    model = lightgbm.LGBMRegressor(n_estimators=20, num_leaves=15, verbose=-1)
    yield "lightgbm", bitvec.convert(model.fit(X, y)), X
    X, y = load_iris(return_X_y=True)
    yield "one tree", bitvec.convert(DecisionTreeClassifier(random_state=0).fit(X, y)), X
    codes = rng.integers(0, (12, 40), (2000, 2))
    x = rng.normal(size=2000)
    table = pandas.DataFrame({"a": codes[:, 0], "b": codes[:, 1], "x": x})
    table = table.astype({"a": "category", "b": "category"})
    y = np.where(codes[:, 0] % 3 == 0, 2.0, -1.0) * x + codes[:, 1] % 5
    model = lightgbm.LGBMRegressor(n_estimators=10, num_leaves=15, verbose=-1)
    yield "categories", bitvec.convert(model.fit(table, y)), np.column_stack([codes, x])


def drawn(n: int) -> Iterator[tuple[str, Forest, np.ndarray]]:
    """Yield n models of drawn libraries, options and data."""
    import lightgbm
    import xgboost
    from sklearn.ensemble import (
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        RandomForestClassifier,
    )

    for seed in range(n):
        rng = np.random.default_rng(seed)
        size, depth = rng.integers(1, 12, 2).tolist()
        X = rng.normal(size=(300, int(rng.integers(2, 12)))).round(int(rng.integers(0, 4)))
        y = (X[:, 0] * X[:, 1] > rng.normal(size=300) / 4).astype(int) + (X[:, -1] > 1)
        trees: Any = {"n_estimators": size}
        quiet = trees | {"max_depth": depth, "min_child_samples": 5, "verbose": -1}
        kinds: dict[str, Any] = {
            "random forest": RandomForestClassifier(**trees, max_depth=depth),
            "extra trees": ExtraTreesRegressor(**trees, max_depth=depth),
            "gradient boosting": GradientBoostingClassifier(**trees, max_depth=min(depth, 5)),
            "xgboost": xgboost.XGBClassifier(**trees, max_depth=depth),
            "lightgbm": lightgbm.LGBMClassifier(**quiet),
        }
        name = list(kinds)[seed % len(kinds)]
        if name in ("xgboost", "lightgbm"):
            X[rng.random(X.shape) < 0.1] = np.nan
        yield f"drawn {seed}, {name}", bitvec.convert(kinds[name].fit(X, y)), X


def rows_of(forest: Forest, X: np.ndarray, *, subnormal: bool) -> np.ndarray:
    """Return 100 rows, (100, n_features) in float32: 40 of the data, 40 ties, 20 with NaN.

    The neighbours of 0 are subnormal; where a target says that its runtime reads those as 0, the
    least normal numbers stand in their place.
    """
    rng, tests = np.random.default_rng(1), forest.tests
    rows = X[rng.integers(0, len(X), 100)].astype(np.float32)
    for feature in range(forest.n_features):
        read = tests.feature == feature
        if (read & (tests.kind == Kind.SET)).any():
            rows[40:80, feature] = rng.integers(-1, X[:, feature].max() + 3, 40)
        elif read.any():
            at = rng.choice(tests.b[read].astype(np.float32), 40)
            side = rng.choice(np.array([-np.inf, np.inf], np.float32), 40)
            rows[40:80, feature] = np.where(rng.random(40) < 0.4, at, np.nextafter(at, side))
    rows[:80] = np.nan_to_num(rows[:80])
    tiny = np.float32(0) if subnormal else np.finfo(np.float32).tiny
    rows = np.where((rows != 0) & (np.abs(rows) < tiny), np.copysign(tiny, rows), rows)
    rows[80:][rng.random(rows[80:].shape) < 0.4] = np.nan
    return rows


def write(
    folder: Path, runtime: str, *, own: bool = False, n_drawn: int = 0
) -> list[dict[str, Any]]:
    """Write the files for a runtime, or its own form's, and rows; return what is known of each.

    Of `n_drawn` drawn models only the runtime's own files are written.
    """
    forms = {runtime: {"target": runtime}} | ({} if own else FORMS)
    if "traversal" in TARGETS[runtime].forms:
        forms |= {f"{runtime}, traversal": {"target": runtime, "form": "traversal"}}
    jobs, alone = [], {"batch": 1} if TARGETS[runtime].fixed_batch else {}
    for name, forest, X in chain(models(), drawn(n_drawn)):
        rows = rows_of(forest, X, subnormal=TARGETS[runtime].subnormal_rows)
        own_forms = {form: asked for form, asked in forms.items() if form.startswith(runtime)}
        tried = own_forms if name.startswith("drawn") else forms
        for form, options in tried.items():
            stem = f"{name} {form}".replace(" ", "_").replace(",", "")
            job = {"model": name, "form": form, "file": str(folder / f"{stem}.onnx")}
            try:
                path = bitvec.export(forest, job["file"], outputs=OUTPUTS, **alone, **options)
            except UnsupportedModelError as error:
                jobs.append(job | {"refused": f"bitvec: {error}"})
                continue
            engine = OnnxEngine(any_batch(path))
            masks = engine.info()["form"] == "portable" or TARGETS[runtime].name in form
            takes_missing = engine.masked or not masks
            given = rows if takes_missing else rows[:80]
            if forest.source is not None and forest.source.library == "sklearn":
                given = given[:80]
            missing = np.isnan(given)
            fed = {"X": np.where(missing, 0, given) if engine.masked else given}
            fed |= {"present": (~missing).astype(np.float32)} if engine.masked else {}
            dtype = engine.input_dtype
            np.savez(path.with_suffix(".npz"), **{n: a.astype(dtype) for n, a in fed.items()})
            expected = {
                "leaves": reference.exit_leaves(forest, given.astype(forest.dtype)),
                "raw": engine.raw(given),
            }
            np.savez(path.with_suffix(".expected.npz"), **expected)
            jobs.append(job | {"batch": describe(path)["batch"], "bytes": path.stat().st_size})
    return jobs + _of_operators(folder)


def _of_operators(folder: Path) -> list[dict[str, Any]]:
    """Write the files of single operators, and what onnxruntime answers."""
    jobs = []
    for name, path, row in operators.write(folder):
        answers = open_session(path, 1).run(OUTPUTS, {"X": row})
        np.savez(path.with_suffix(".npz"), X=row)
        found = dict(zip(OUTPUTS, answers, strict=True))
        np.savez(path.with_suffix(".expected.npz"), **found)
        facts = {"model": f"operator {name}", "form": "operator", "file": str(path)}
        jobs.append(facts | {"batch": len(row), "bytes": path.stat().st_size})
    return jobs


def compared(job: dict[str, Any]) -> str:
    """Return what became of one file: equal, refused, or how many rows differ."""
    if "refused" in job:
        return "refused"
    path = Path(job["file"])
    found, expected = (np.load(path.with_suffix(f".{end}.npz")) for end in ("found", "expected"))
    for name in ("leaves", "raw"):
        if name not in found:
            return f"no {name}"
        if found[name].size != expected[name].size:
            return f"{name} of {found[name].shape}"
        answer = found[name].reshape(expected[name].shape)
        same = (answer == expected[name]) | (np.isnan(answer) & np.isnan(expected[name]))
        differ = int((~same).any(axis=1).sum())
        if differ:
            return f"{name} wrong in {differ} of {len(answer)} rows"
    return "equal"


def measured(
    runtime: str, python: str, *, own: bool, n_drawn: int
) -> tuple[str, list[dict[str, Any]]]:
    """Run a runtime on its files; return its version and what became of each."""
    place = run.CACHE / f"runtime-{runtime}"
    if runtime in USES_TORCH:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place)
        run.run(*pip, "--upgrade", *RUNTIMES[runtime])
        command = ["env", f"PYTHONPATH={place}", sys.executable]
    else:
        command = [str(run.environment(place, ("numpy", *RUNTIMES[runtime]), python))]
    folder = FILES / runtime
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    jobs = write(folder, runtime, own=own, n_drawn=n_drawn)
    (folder / "jobs.json").write_text(json.dumps(jobs))
    run.run(*command, HERE / "answers.py", runtime, folder / "jobs.json")
    told = json.loads((folder / "jobs.json").read_text())
    return told["version"], [job | {"became": compared(job)} for job in told["jobs"]]


def main(arguments: list[str]) -> int:
    """Measure what is asked for, and print a table for each runtime."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=RUNTIMES, action="append", help="this runtime")
    parser.add_argument("--own", action="store_true", help="only files for the runtime itself")
    parser.add_argument("--python", default=sys.executable, help="of the environments")
    parser.add_argument("--drawn", type=int, default=0, help="so many drawn models besides")
    parser.add_argument("--json", type=Path, help="a file for what was measured")
    options = parser.parse_args(arguments)
    passed, rows = True, []
    for runtime in options.only or RUNTIMES:
        try:
            version, jobs = measured(
                runtime, options.python, own=options.own, n_drawn=options.drawn
            )
        except (RuntimeError, OSError) as error:
            rows.append({"runtime": runtime, "reason": " ".join(str(error).split())[:300]})
            print(f"{runtime}: skipped, for it cannot be installed or started here: {error}\n")
            continue
        print(f"{runtime} {version}")
        show(jobs)
        rows += [{"runtime": runtime, "version": version, **facts_of(job)} for job in jobs]
        passed &= all(
            job["became"] == "equal" or job.get("refused", "").startswith("bitvec: ")
            for job in jobs
            if job["form"].startswith(runtime)
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows))
    return int(not passed)


def facts_of(job: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a file: model, form, what became of it, size and time."""
    kept = ("model", "form", "became", "refused", "bytes", "us_1", "us_100")
    return {name: job[name] for name in kept if name in job}


def show(jobs: list[dict[str, Any]]) -> None:
    """Print models by forms, and why files were refused."""
    forms = list(dict.fromkeys(job["form"] for job in jobs))
    print("  {:<30}".format("") + "".join(f"{form:<26}" for form in forms))
    for model in dict.fromkeys(job["model"] for job in jobs):
        became = {job["form"]: job["became"] for job in jobs if job["model"] == model}
        print(f"  {model:<30}" + "".join(f"{became.get(form, ''):<26}" for form in forms))
    for job in jobs:
        if "refused" in job:
            print(f"  {job['model']}, {job['form']}: {job['refused'][:200]}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
