"""Run the suite on each Python that is here, with the lowest, the pinned and the newest versions.

    python tests/versions/suites.py [--python PYTHON] [--versions WHICH] [-- PYTEST_ARGUMENTS]

`lowest` installs, on the oldest Python, the lowest versions that pyproject.toml allows (torch as it
is pinned, which saves gigabytes); `pinned` those of constraints.txt; `newest` whatever the index
has. uv makes the environments, under `.versions/`; with UV_TORCH_BACKEND=cpu it takes the build of
torch without CUDA. Prints a table, and each reason why tests were skipped. Exits with 1 if a test
failed or a suite could not be run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".versions"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
VERSIONS = ("lowest", "pinned", "newest")


@dataclass(frozen=True, slots=True)
class Suite:
    """What became of the suite in one environment.

    Parameters
    ----------
    skipped : Counter of str
        How many tests were skipped for which reason.
    trouble : str
        Why it could not be run.
    """

    python: str
    versions: str
    passed: int = 0
    failed: tuple[str, ...] = ()
    skipped: Counter[str] = field(default_factory=Counter)
    trouble: str = ""


def requirements(versions: str) -> list[str]:
    """Return what uv is asked to install."""
    constraints = ROOT / "constraints.txt"
    if versions == "pinned":
        return ["--constraints", str(constraints), "--editable", f"{ROOT}[test]"]
    if versions == "newest":
        return ["--upgrade", "--editable", f"{ROOT}[test]"]
    (torch,) = re.findall(r"^torch==[^;\s]+", constraints.read_text(), re.MULTILINE)
    return ["--resolution", "lowest-direct", torch, "--editable", f"{ROOT}[test]"]


def read(report: Path, python: str, versions: str) -> Suite:
    """Return what pytest wrote about a run."""
    passed, failed, skipped = 0, [], Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        outcomes = {child.tag: child for child in case}
        if "failure" in outcomes or "error" in outcomes:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in outcomes:
            skipped[outcomes["skipped"].get("message", "")] += 1
        else:
            passed += 1
    return Suite(python, versions, passed, tuple(failed), skipped)


def run(python: str, versions: str, arguments: list[str]) -> Suite:
    """Make the environment anew and run the suite in it."""
    folder = CACHE / f"suite-{python}-{versions}"
    interpreter, report = folder / "bin" / "python", folder / "report.xml"
    uv = (sys.executable, "-m", "uv")
    try:
        _quietly(*uv, "venv", "--clear", "--python", python, "--no-python-downloads", folder)
        _quietly(*uv, "pip", "install", "--python", interpreter, *requirements(versions))
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines()
        return Suite(python, versions, trouble=" ".join(line.strip() for line in lines)[:300])
    command: list[str | Path] = [interpreter, "-m", "pytest", "-q", f"--junitxml={report}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False)
    if not report.is_file():
        return Suite(python, versions, trouble=f"pytest exited with {done.returncode}")
    return read(report, python, versions)


def _quietly(*command: str | Path) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)


def show(suites: list[Suite]) -> int:
    """Print the table, failed tests and reasons for skips; return 1 if a suite did not pass."""
    form = "{:<8}{:<9}{:>8}{:>9}{:>8}"
    print("\n" + form.format("Python", "versions", "passed", "skipped", "failed"))
    for suite in suites:
        counts = (suite.passed, suite.skipped.total(), len(suite.failed))
        shown = ("-", "-", "-") if suite.trouble else counts
        print(form.format(suite.python, suite.versions, *shown), suite.trouble)
    for suite in suites:
        for reason, count in suite.skipped.most_common():
            print(f"{suite.python} {suite.versions}: {count} skipped: {reason}")
        for name in suite.failed:
            print(f"{suite.python} {suite.versions}: failed: {name}")
    return int(not suites or not all(suite.passed and not suite.failed for suite in suites))


def main(arguments: list[str]) -> int:
    """Run what is asked for."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", choices=PYTHONS, action="append")
    parser.add_argument("--versions", choices=VERSIONS, action="append")
    options = parser.parse_args(arguments[:at])
    pythons = options.python or [name for name in PYTHONS if shutil.which(f"python{name}")]
    suites = [
        run(python, versions, arguments[at + 1 :])
        for python in pythons
        for versions in options.versions or VERSIONS
        if versions != "lowest" or python == pythons[0]
    ]
    return show(suites)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
