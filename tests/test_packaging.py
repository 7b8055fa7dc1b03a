"""What an install brings: each module once, nothing generic beside bitvec, no library unasked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

import bitvec
from bitvec import distribution

ROOT = Path(__file__).resolve().parents[1]
LINKS = {"converters", "learners", "runtime"}
"""Links at the root, for readers: no import, tool or build goes through them."""

OPTIONAL = {
    "catboost",
    "duckdb",
    "lightgbm",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pandas",
    "polars",
    "prometheus_client",
    "pyarrow",
    "scipy",
    "skops",
    "sklearn",
    "starlette",
    "torch",
    "treelite",
    "triton",
    "xgboost",
    "ydf",
}
"""Modules of libraries that a plain `pip install bitvec-trees` does not bring."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

IMPORT_ALL = """
import importlib, sys
optional, names = sys.argv[1].split(), sys.argv[2:]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        library = getattr(error, "library", None) or error.name or ""
        if library.split(".")[0] not in optional:
            raise
print(*sys.modules)
"""


def package_files() -> dict[str, Path]:
    """Every file of the package by its place in a wheel."""
    paths = (path for path in (ROOT / "bitvec").rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix(): path
        for path in paths
        if path.parent.name != "__pycache__"
    }


def module_names() -> list[str]:
    """Every module of the package, `__main__` apart."""
    files = (PurePosixPath(file) for file in package_files() if file.endswith(".py"))
    paths = (file.parent if file.name == "__init__.py" else file.with_suffix("") for file in files)
    return sorted(".".join(path.parts) for path in paths if path.name != "__main__")


def modules_after_importing(names: list[str]) -> set[str]:
    """Import `names` in a fresh interpreter at the repository root and return its sys.modules."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, " ".join(sorted(OPTIONAL)), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


SMOKE = """
from importlib.metadata import version
from pathlib import Path
import sys

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import bitvec

installed = Path(sys.argv[1])
X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "b", "b", "a"])
model = DecisionTreeClassifier(random_state=0).fit(X, y)
forest = bitvec.convert(model)
assert (bitvec.compile(forest, engine="reference").predict(X) == y).all()
path = installed.parent / "smoke.safetensors"
bitvec.save(forest, path)
assert len(bitvec.load(path)) == 1
assert installed in Path(bitvec.__file__).resolve().parents, bitvec.__file__
print(version("bitvec-trees"), bitvec.__version__)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, since builds leave folders behind."""
    copy = tmp_path_factory.mktemp("packaging") / "tree"
    copy.mkdir()
    caches = shutil.ignore_patterns("__pycache__")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, copy)
    for folder in ("bitvec", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=caches)
    for name in LINKS:
        (copy / name).symlink_to(f"bitvec/{name}")
    return copy


def build_wheel(source: Path, destination: Path) -> list[str]:
    """Build a wheel from a tree or an sdist and return the names of its files, sorted."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(destination)]
    done = subprocess.run(
        [*pip, "wheel", *options, str(source)],
        cwd=destination.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = destination.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


@pytest.fixture(scope="module")
def names(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in a wheel of the tree."""
    return build_wheel(tree, tmp_path_factory.mktemp("wheels") / "wheel")


def test_import_bitvec_brings_no_optional_library_and_no_compiler() -> None:
    loaded = modules_after_importing(["bitvec"])
    assert not loaded & (OPTIONAL | {"numba"})


def test_no_core_module_brings_an_optional_library() -> None:
    rooms = ("core", "files", "verify")
    names = module_names()
    core = [n for n in names if n.count(".") < 2 or n.split(".")[1] in rooms]
    core = [n for n in core if n != "bitvec.learners"]
    assert not modules_after_importing(core) & OPTIONAL


@pytest.mark.full
def test_links_at_the_root_are_never_modules_of_their_own() -> None:
    loaded = modules_after_importing(module_names())
    assert loaded >= {f"bitvec.{name}" for name in LINKS}
    assert not loaded & LINKS


def test_wheel_holds_every_file_of_the_package_once_and_nothing_else(names: list[str]) -> None:
    metadata = f"bitvec_trees-{PROJECT['version']}.dist-info/"
    assert [name for name in names if not name.startswith(metadata)] == sorted(package_files())
    assert "bitvec/py.typed" in names
    assert f"{metadata}licenses/LICENSE" in names


def test_a_wheel_of_a_checkout_without_symbolic_links_is_the_same_and_runs_where_it_is_installed(
    tree: Path, names: list[str], tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(
        tree, plain, symlinks=True, ignore=shutil.ignore_patterns("build", "*.egg-info")
    )
    for name in LINKS:  # as git writes a link where `core.symlinks` is false
        (plain / name).unlink()
        (plain / name).write_text(f"bitvec/{name}", encoding="utf-8")
    assert build_wheel(plain, tmp_path / "wheel") == names
    (wheel,) = (tmp_path / "wheel").glob("bitvec_trees-*.whl")
    installed = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run(
        [*pip, "--no-deps", "--no-index", "--no-compile", "--target", str(installed), str(wheel)],
        check=True,
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    for command, printed in {
        ("-c", SMOKE, str(installed)): f"{PROJECT['version']} {PROJECT['version']}\n",
        ("-m", "bitvec", "--version"): f"bitvec {PROJECT['version']}\n",
    }.items():
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_every_extra_that_names_the_distribution_names_this_one() -> None:
    requirements = [
        Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines
    ]
    of_extras = {found.name for found in requirements if found.extras}
    assert of_extras == {distribution.NAME} == {PROJECT["name"]} == {"bitvec-trees"}


def test_sdist_holds_every_file_of_the_package_once_and_makes_the_same_wheel(
    tree: Path, names: list[str], tmp_path: Path
) -> None:
    build = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=tree, capture_output=True, check=True
    )
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = [file.name.partition("/")[2] for file in archive.getmembers() if not file.isdir()]
    held = sorted(name for name in files if name.split("/")[0] in {"bitvec", *LINKS, "tests"})
    assert held == sorted(path.relative_to(ROOT).as_posix() for path in package_files().values())
    assert build_wheel(sdist, tmp_path / "again") == names


def test_the_extra_xgboost_is_xgboost_itself() -> None:
    extras = {
        extra: {Requirement(line).name for line in lines}
        for extra, lines in PROJECT["optional-dependencies"].items()
    }
    assert extras["xgboost"] == {"xgboost"}
    # The two projects hold the same module, so xgboost-cpu would overwrite a user's xgboost.
    assert {extra for extra, names in extras.items() if "xgboost-cpu" in names} == {"test"}


def test_version_is_that_of_the_project() -> None:
    assert bitvec.__version__ == PROJECT["version"]
