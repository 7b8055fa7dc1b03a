"""Run the suite on each Python that is here, with the lowest, the pinned and the newest versions.

    python tests/versions/suites.py [--python PYTHON] [--versions WHICH] [--save]
        [-- PYTEST_ARGUMENTS]

`lowest` installs, on the oldest Python, the lowest versions that pyproject.toml allows; `pinned`
those of constraints.txt; `newest` whatever the index has. uv makes the environments, under
`.versions/`; with UV_TORCH_BACKEND=cpu it takes the build of torch without CUDA, which saves
gigabytes. Pythons are those on the path and those of pyenv. Tests that fail are run again, one at a
time, since some measure time or memory, which a busy machine has little of. Prints a table, the
tests that passed only then, and each reason why tests were skipped; --save keeps all of it for the
docs. Exits with 1 if a test failed or a suite could not be run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # last: the generators beside this file have the names of libraries

from tests.versions import tested  # noqa: E402

CACHE = ROOT / ".versions"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
VERSIONS = ("lowest", "pinned", "newest")


@dataclass(frozen=True, slots=True)
class Suite:
    """Outcome of the suite in one environment.

    Parameters
    ----------
    again : tuple of str
        Those of the passed tests that failed at first, and passed when they were run once more.
    skipped : Counter of str
        How many tests were skipped for which reason.
    trouble : str
        Why it could not be run.
    """

    python: str
    versions: str
    passed: int = 0
    failed: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    skipped: Counter[str] = field(default_factory=Counter)
    trouble: str = ""


def requirements(versions: str) -> list[str]:
    """Return what uv is asked to install."""
    constraints = ROOT / "constraints.txt"
    if versions == "pinned":
        return ["--constraints", str(constraints), "--editable", f"{ROOT}[test]"]
    if versions == "newest":
        return ["--upgrade", "--editable", f"{ROOT}[test]"]
    # Said again, since what other libraries ask for makes uv take a later one.
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (torch,) = re.findall(r'^torch = \["torch>=([\d.]+)"\]', project, re.MULTILINE)
    return ["--resolution", "lowest-direct", f"torch=={torch}.*", "--editable", f"{ROOT}[test]"]


def interpreters() -> dict[str, Path]:
    """Return the Pythons that run here, by their version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {}
    for version in PYTHONS:
        on_path = shutil.which(f"python{version}")
        for candidate in (*filter(None, [on_path]), *pyenv.glob(f"{version}.*/bin/python")):
            # pyenv has a `python3.13` on the path that only says which versions there are.
            done = subprocess.run([candidate, "-c", ""], capture_output=True, check=False)
            if done.returncode == 0:
                found[version] = Path(candidate)
                break
    return found


def read(python: str, versions: str, *reports: Path) -> Suite:
    """Return what pytest wrote about a run, and about a second one of the tests that failed."""
    outcomes: dict[str, tuple[str, str]] = {}
    again = []
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            children = {child.tag: child for child in case}
            outcome = ("passed", "")
            if "failure" in children or "error" in children:
                outcome = ("failed", "")
            elif "skipped" in children:
                outcome = ("skipped", children["skipped"].get("message", ""))
            elif outcomes.get(name) == ("failed", ""):
                again.append(name)
            outcomes[name] = outcome
    kinds = Counter(kind for kind, _ in outcomes.values())
    failed = tuple(name for name, (kind, _) in outcomes.items() if kind == "failed")
    skipped = Counter(why for kind, why in outcomes.values() if kind == "skipped")
    return Suite(python, versions, kinds["passed"], failed, tuple(again), skipped)


def run(python: str, found: Path, versions: str, arguments: list[str]) -> Suite:
    """Make the environment of a Python anew and run the suite in it."""
    folder = CACHE / f"suite-{python}-{versions}"
    interpreter = folder / "bin" / "python"
    uv = (sys.executable, "-m", "uv")
    try:
        _quietly(
            *uv, "venv", "--clear", "--seed", "--python", found, "--no-python-downloads", folder
        )
        _quietly(*uv, "pip", "install", "--python", interpreter, *requirements(versions))
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines()
        return Suite(python, versions, trouble=" ".join(line.strip() for line in lines)[:300])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    cache = f"cache_dir={folder / 'cache'}"
    pytest: list[str | Path] = [interpreter, "-m", "pytest", "-q", "-o", cache]
    reports = []
    for turn, more in (("report", []), ("again", ["--last-failed", "-n", "0"])):
        report = folder / f"{turn}.xml"
        command = [*pytest, f"--junitxml={report}", *arguments, *more]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if not report.is_file():
            return Suite(python, versions, trouble=f"pytest exited with {done.returncode}")
        reports.append(report)
        if done.returncode == 0:
            break
    return read(python, versions, *reports)


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
        for name in suite.again:
            print(f"{suite.python} {suite.versions}: passed when run again: {name}")
        for name in suite.failed:
            print(f"{suite.python} {suite.versions}: failed: {name}")
    return int(not suites or not all(suite.passed and not suite.failed for suite in suites))


def main(arguments: list[str]) -> int:
    """Run what is asked for."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", choices=PYTHONS, action="append")
    parser.add_argument("--versions", choices=VERSIONS, action="append")
    parser.add_argument("--save", action="store_true", help="keep the results for the docs")
    options = parser.parse_args(arguments[:at])
    here = interpreters()
    pythons = options.python or list(here)
    suites = [
        run(python, here[python], versions, arguments[at + 1 :])
        if python in here
        else Suite(python, versions, trouble=f"there is no Python {python} here")
        for python in pythons
        for versions in options.versions or VERSIONS
        if versions != "lowest" or python == pythons[0]
    ]
    if options.save:
        keep(suites)
    return show(suites)


def keep(suites: list[Suite]) -> None:
    """Keep the suites that were run for the docs."""
    # Copied by `asdict`, a Counter counts pairs before Python 3.12.
    done = [suite for suite in suites if not suite.trouble]
    rows = [asdict(suite) | {"skipped": dict(suite.skipped)} for suite in done]
    tested.keep("suites", rows, "python", "versions")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
