"""What an install brings: each module once, nothing generic beside bitvec, no library unasked."""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parents[1]
LINKS = {"converters", "learners", "runtime"}
"""Links at the root, for readers: no import, tool or build goes through them."""

OPTIONAL = {
    "catboost",
    "lightgbm",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "skops",
    "sklearn",
    "torch",
    "treelite",
    "xgboost",
    "ydf",
}
"""Modules of libraries that a plain `pip install bitvec` does not bring."""

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


def test_import_bitvec_brings_no_optional_library_and_no_compiler() -> None:
    loaded = modules_after_importing(["bitvec"])
    assert not loaded & (OPTIONAL | {"numba"})


def test_no_core_module_brings_an_optional_library() -> None:
    rooms = ("core", "files", "verify")
    names = module_names()
    core = [n for n in names if n.count(".") < 2 or n.split(".")[1] in rooms]
    core = [n for n in core if n != "bitvec.learners"]
    assert not modules_after_importing(core) & OPTIONAL


def test_links_at_the_root_are_never_modules_of_their_own() -> None:
    loaded = modules_after_importing(module_names())
    assert loaded >= {f"bitvec.{name}" for name in LINKS}
    assert not loaded & LINKS


def test_wheel_holds_every_file_of_the_package_once_and_nothing_else(
    tree: Path, tmp_path: Path
) -> None:
    names = build_wheel(tree, tmp_path / "wheel")
    metadata = f"bitvec-{PROJECT['version']}.dist-info/"
    assert [name for name in names if not name.startswith(metadata)] == sorted(package_files())
    assert "bitvec/py.typed" in names
    assert f"{metadata}licenses/LICENSE" in names


def test_sdist_holds_every_file_of_the_package_once_and_makes_the_same_wheel(
    tree: Path, tmp_path: Path
) -> None:
    build = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=tree, capture_output=True, check=True
    )
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [file.name.partition("/")[2] for file in archive.getmembers() if not file.isdir()]
    held = sorted(name for name in names if name.split("/")[0] in {"bitvec", *LINKS, "tests"})
    assert held == sorted(path.relative_to(ROOT).as_posix() for path in package_files().values())
    assert build_wheel(sdist, tmp_path / "again") == build_wheel(tree, tmp_path / "wheel")


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
