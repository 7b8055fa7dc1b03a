"""What tests other versions of the libraries works, here with the versions that are installed."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent / "versions"
GENERATORS = {path.stem for path in FOLDER.glob("*.py")} - {
    "check",
    "run",
    "saving",
    "suites",
    "tested",
}


def script(path: Path) -> ModuleType:
    """Import a script by its path."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its module
    spec.loader.exec_module(module)
    return module


run, check, suites = (script(FOLDER / f"{name}.py") for name in ("run", "check", "suites"))
systems = script(FOLDER.parent / "systems" / "run.py")
install = script(FOLDER.parents[1] / ".ci" / "install.py")


def test_every_library_of_the_table_has_a_generator_and_every_generator_stands_in_it():
    assert run.VERSIONS.keys() == GENERATORS


@pytest.mark.parametrize("library", sorted(GENERATORS))
def test_each_version_is_pinned_to_itself_and_the_versions_rise(library):
    versions = run.VERSIONS[library]
    assert len(versions) >= 3
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


def test_a_version_that_cannot_be_run_fails_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "CACHE", tmp_path)
    missing = str(tmp_path / "no-python")
    assert run.main(["--only", "treelite", "--python", missing]) == 1
    assert "not run" in capsys.readouterr().out


# ---- suites in other environments

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="good"/>
<testcase classname="tests.a" name="bad"><failure message="1 != 2">trace</failure></testcase>
<testcase classname="tests.a" name="worse"><error message="no fixture">trace</error></testcase>
<testcase classname="tests.b" name="left"><skipped message="needs a GPU">where</skipped></testcase>
<testcase classname="tests.b" name="out"><skipped message="needs a GPU">where</skipped></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_and_skips_are_named(tmp_path, capsys):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    suite = suites.read("3.14", "pinned", report)
    assert (suite.passed, suite.failed) == (1, ("tests.a::bad", "tests.a::worse"))
    assert suites.show([suite]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^3\.14 +pinned +1 +2 +2 *$", printed, re.MULTILINE)
    assert "3.14 pinned: 2 skipped: needs a GPU" in printed
    assert "3.14 pinned: failed: tests.a::worse" in printed


def test_a_test_that_passes_when_run_again_is_counted_and_named(tmp_path, capsys):
    first, second = tmp_path / "report.xml", tmp_path / "again.xml"
    first.write_text(REPORT)
    second.write_text(
        '<testsuite><testcase classname="tests.a" name="bad"/>'
        '<testcase classname="tests.a" name="worse"><error/></testcase></testsuite>'
    )
    suite = suites.read("3.14", "pinned", first, second)
    assert (suite.passed, suite.failed) == (2, ("tests.a::worse",))
    assert suite.again == ("tests.a::bad",)
    assert suite.skipped.total() == 2
    suites.show([suite])
    assert "3.14 pinned: passed when run again: tests.a::bad" in capsys.readouterr().out


def test_a_python_that_only_says_that_it_is_elsewhere_is_not_taken(tmp_path, monkeypatch):
    shim, real = (
        tmp_path / "shims" / "python3.13",
        tmp_path / "versions" / "3.13.0" / "bin" / "python",
    )
    for path, status in ((shim, 127), (real, 0)):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\nexit {status}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert suites.interpreters() == {"3.13": real}


def test_results_replace_those_of_the_same_system(tmp_path, monkeypatch):
    monkeypatch.setattr(suites.tested, "PATH", tmp_path / "tested.json")
    for passed in (3, 4):
        suites.keep([suites.Suite("3.14", "newest", passed), suites.Suite("3.13", "newest", 5)])
    suites.keep([suites.Suite("3.11", "lowest", trouble="no such Python")])
    kept = json.loads((tmp_path / "tested.json").read_text())["suites"]
    assert [(row["python"], row["passed"]) for row in kept] == [("3.14", 4), ("3.13", 5)]


def test_a_suite_that_ran_no_test_or_could_not_run_fails_the_run():
    assert suites.show([suites.Suite("3.14", "newest", passed=3)]) == 0
    assert suites.show([suites.Suite("3.14", "newest", passed=3), suites.Suite("3.11", "x")]) == 1
    assert suites.show([suites.Suite("3.14", "newest", trouble="no such Python")]) == 1
    assert suites.show([]) == 1


def test_lowest_versions_are_those_of_the_project():
    asked = suites.requirements("lowest")
    assert asked[:2] == ["--resolution", "lowest-direct"]
    lowest = re.fullmatch(r"torch==(\d+\.\d+)\.\*", asked[2])
    assert lowest is not None
    (torch,) = (each for each in metadata.requires("bitvec-trees") if each.startswith("torch"))
    assert f"torch>={lowest[1]};" in torch
    assert "--constraints" in suites.requirements("pinned")
    assert "--constraints" not in suites.requirements("newest")


# ---- fresh systems


def test_a_system_that_cannot_be_made_here_is_skipped_with_a_word(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(systems.os, "geteuid", lambda: 1000, raising=False)
    assert systems.main([]) == 0
    assert "skipped, since it needs root" in capsys.readouterr().out
    monkeypatch.setattr(systems.os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(systems.shutil, "which", lambda name: None)
    assert systems.main([]) == 0
    assert "skipped, since debootstrap is not installed" in capsys.readouterr().out
    monkeypatch.setattr(systems.shutil, "which", lambda name: name)
    monkeypatch.setattr(systems.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    assert systems.main([]) == 0
    assert "skipped, since root may not mount here" in capsys.readouterr().out


def test_a_command_that_fails_on_a_system_fails_the_run(monkeypatch, capsys):
    for name in ("system", "clone", "pythons"):
        monkeypatch.setattr(systems, name, lambda *arguments: None)
    monkeypatch.setattr(systems, "obstacle", lambda: "")
    monkeypatch.setattr(systems, "entered", lambda folder, command: 2 * (command == "make test"))
    assert systems.main([]) == 1
    printed = capsys.readouterr().out
    assert "make quickstart: passed" in printed
    assert "make test: failed with 2" in printed
    assert systems.main(["--command", "make quickstart"]) == 0


# ---- the installation

HEARD = """Collecting big>=1
WARNING: Location '/nowhere' is ignored: it is either a non-existing path or lacks a scheme.
  Downloading big-1.0-py3-none-any.whl.metadata (2 kB)
Downloading big-1.0-py3-none-any.whl (526.6 MB)
Installing collected packages: small, big
"""
LOST = """Collecting lost==9
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/lost/
ERROR: Could not find a version that satisfies the requirement lost==9 (from versions: none)
ERROR: Cannot install lost because these package versions have conflicting dependencies.
The conflict is caused by:
"""


def heard(text: str, **arguments: object) -> object:
    account = install.Account(**arguments)
    install.followed(text.splitlines(), account)
    return account


def test_large_downloads_are_said_and_warnings_are_not(capsys):
    account = heard(HEARD)
    assert capsys.readouterr().out.splitlines() == [
        "  Downloading big-1.0-py3-none-any.whl (526.6 MB) ...",
        "  Unpacking 2 packages, 527 MB downloaded ...",
    ]
    assert account.errors == []


def test_what_lasts_is_said_again(capsys, monkeypatch):
    monkeypatch.setattr(install.time, "monotonic", lambda: 100.0)
    account = install.Account(doing="Downloading big", since=60.0, said=95.0)
    account.beat()
    assert capsys.readouterr().out == ""
    account.said = 69.0
    account.beat()
    assert capsys.readouterr().out == "  Downloading big, for 40 s ...\n"


def test_a_failure_names_the_package_and_the_way_out():
    told = install.failure(heard(LOST))
    assert "satisfies the requirement lost==9" in told
    assert "pip failed at the package lost, for which a package index did not answer." in told
    assert "conflict" not in told
    assert "PIP_INDEX_URL" in told
    assert "WARNING" not in told
