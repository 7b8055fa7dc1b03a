"""Follow each tutorial in an environment that has what its page says, and no more.

    python tests/systems/tutorials.py [--only PAGE]

Each page of the docs with a line "To follow this page: `pip install ...`" gets an environment of
its own in a temporary folder, with this checkout in the place of the distribution, and its snippets
are run as doctests from there. Exits with 1 if a page prints anything else than it says.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDS = re.compile(r"^To follow this page: `pip install (.+)`$", re.MULTILINE)
RUN = """
import doctest, sys
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
result = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags, encoding="utf-8")
print(result)
sys.exit(result.failed > 0 or result.attempted < 5)
"""


def tutorials() -> dict[Path, list[str]]:
    """Return the pages that say what they need, with the requirements."""
    found = {}
    for page in sorted((ROOT / "docs").glob("*.md")):
        if needs := NEEDS.search(page.read_text(encoding="utf-8")):
            found[page] = shlex.split(needs[1])
    return found


def follow(page: Path, requirements: list[str], folder: Path) -> bool:
    """Make an environment, install what the page says, and run its snippets."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    here = [str(ROOT) + line.removeprefix("bitvec-trees") if "[" in line else line
            for line in requirements]  # fmt: skip
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    for command in ([*pip, *here], [str(python), "-c", RUN, str(page)]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
            return False
    return True


def main() -> None:
    """Follow the pages, each in a folder that is removed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="a page, as models.md")
    chosen = parser.parse_args()
    failed = []
    for page, requirements in tutorials().items():
        if chosen.only not in (None, page.name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            if not follow(page, requirements, Path(folder)):
                failed.append(page.name)
        print(page.name, "differs" if page.name in failed else "prints what it says", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
