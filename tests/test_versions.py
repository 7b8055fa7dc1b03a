"""What tests other versions of the libraries works, here with the versions that are installed."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent / "versions"
GENERATORS = {path.stem for path in FOLDER.glob("*.py")} - {"check", "run", "saving"}


def script(name: str) -> ModuleType:
    """Import a script by its path."""
    spec = importlib.util.spec_from_file_location(f"versions_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its module
    spec.loader.exec_module(module)
    return module


run, check = script("run"), script("check")


def test_every_library_of_the_table_has_a_generator_and_every_generator_stands_in_it():
    assert run.VERSIONS.keys() == GENERATORS


@pytest.mark.parametrize("library", sorted(GENERATORS))
def test_each_version_is_pinned_to_itself_and_the_versions_rise(library):
    versions = run.VERSIONS[library]
    assert len(versions) == 3
    for version, requirements in versions.items():
        assert re.match(rf"[\w-]+=={re.escape(version)}(;|$)", requirements[0])
    numbers = [tuple(int(part) for part in version.split(".")) for version in versions]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_one_ulp_apart(dtype):
    x = np.array([0.0, -0.0, 1e-45, -1e-45, 1.5, -1.5, 3e38, -np.inf, np.nan], dtype)
    assert check.ulps(x, x.copy()) == 0
    for to in (np.inf, 0):
        above = np.nextafter(x, dtype(to))
        moved = ~((above == x) | np.isnan(x))
        pairs = zip(x[moved, None], above[moved, None], strict=True)
        assert {check.ulps(*pair) for pair in pairs} == {1.0}
    assert check.ulps(np.array([-1.0], dtype), np.array([1.0], dtype)) > 1e9
    assert check.ulps(np.array([1.0], dtype), np.array([np.nan], dtype)) == np.inf
    assert check.ulps(np.array([1.0], np.float32), np.array([1.0], np.float64)) == np.inf


def generated(library: str, folder: Path, *options: str) -> list[dict[str, object]]:
    pytest.importorskip(library)
    if library == "sklearn":
        pytest.importorskip("skops")
    command = [sys.executable, FOLDER / f"{library}.py", folder, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entries: list[dict[str, object]] = json.loads((folder / "manifest.json").read_text())
    return entries


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A folder of a few treelite models."""
    folder = tmp_path_factory.mktemp("treelite")
    generated("treelite", folder, "--few")
    return folder


def test_models_of_the_installed_version_answer_alike(few):
    entries = json.loads((few / "manifest.json").read_text())
    rows = [check.compared(few, entry) for entry in entries]
    assert len(rows) > 4
    assert [row for row in rows if not row.equal] == []
    assert check.main([str(few)]) == 0


@pytest.mark.full
@pytest.mark.parametrize("library", sorted(GENERATORS))
def test_all_models_of_the_installed_version_answer_alike(library, tmp_path):
    entries = generated(library, tmp_path)
    rows = [check.compared(tmp_path, entry) for entry in entries]
    assert len(rows) > 50
    assert [row for row in rows if not row.equal] == []


def test_a_wrong_answer_and_a_refused_model_are_found(few, tmp_path, capsys):
    shutil.copytree(few, tmp_path, dirs_exist_ok=True)
    entry = json.loads((tmp_path / "manifest.json").read_text())[0]
    raw = tmp_path / entry["raw"]
    values = np.load(raw)
    np.save(raw, np.nextafter(values, np.inf))
    changed = check.compared(tmp_path, entry)
    assert (changed.raw, changed.equal) == (1, False)
    (tmp_path / entry["model"]).write_bytes(b"")
    refused = check.compared(tmp_path, entry)
    assert refused.refusal
    assert not refused.equal
    assert check.main([str(tmp_path)]) == 1
    assert "<- " in capsys.readouterr().out
    (tmp_path / "manifest.json").write_text("[]")
    assert check.main([str(tmp_path)]) == 1, "nothing was compared"


def test_an_environment_that_is_whole_is_kept_and_another_is_made_again(tmp_path, monkeypatch):
    folder = tmp_path / "lib-1.0"
    made = []

    def instead(*command: object) -> str:
        made.append(command)
        folder.mkdir(exist_ok=True)
        return ""

    monkeypatch.setattr(run, "run", instead)
    folder.mkdir()
    (folder / "half-made").touch()
    run.environment(folder, ("lib==1.0",), "python3")
    assert len(made) == 2
    assert not (folder / "half-made").exists()
    run.environment(folder, ("lib==1.0",), "python3")
    assert len(made) == 2
    run.environment(folder, ("lib==1.0", "numpy<2"), "python3")
    assert len(made) == 4


def test_a_version_that_cannot_be_asked_fails_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "CACHE", tmp_path)
    missing = str(tmp_path / "no-python")
    assert run.main(["--only", "treelite", "--python", missing]) == 1
    assert "not asked" in capsys.readouterr().out
