"""Follow each tutorial in an environment that has what its page says, and no more.

    python tests/systems/tutorials.py [PAGE ...]

Each page of the docs with a line "To follow this page: `pip install ...`" gets an environment of
its own in a temporary folder, with this checkout in the place of the distribution, and its snippets
are run as doctests from there; a page without such, as that of the browser, is left out. uv
installs; UV_TORCH_BACKEND and UV_FIND_LINKS say where torch without CUDA is. Exits with 1 if a page
prints anything else than it says.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDS = re.compile(r"^To follow this page: `pip install ([^`]+)`", re.MULTILINE)
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
        text = page.read_text(encoding="utf-8")
        if (needs := NEEDS.search(text)) and ">>> " in text:
            found[page] = shlex.split(needs[1])
    return found


def follow(page: Path, requirements: list[str], folder: Path) -> bool:
    """Make an environment, install what the page says, and run its snippets."""
    python = folder / "env" / "bin" / "python"
    here = [
        str(ROOT) + line.removeprefix("bitvec-trees") if line.startswith("bitvec-trees") else line
        for line in requirements
    ]
    uv = (sys.executable, "-m", "uv", "-q")
    install = (*uv, "pip", "install", "--python", str(python), "-c", str(ROOT / "constraints.txt"))
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    (folder / "empty").mkdir()
    for command in (
        (*uv, "venv", "--python", sys.executable, str(folder / "env")),
        (*install, *here),
        (str(python), "-c", RUN, str(page)),
    ):
        done = subprocess.run(
            command,
            cwd=folder / "empty",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
            return False
    return True


def main() -> None:
    """Follow the pages, each in a folder that is removed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="as models.md; all by default")
    chosen = parser.parse_args().pages
    failed = 0
    for page, requirements in tutorials().items():
        if chosen and page.name not in chosen:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            followed = follow(page, requirements, Path(folder))
        failed += not followed
        outcome = "prints what it says" if followed else "differs"
        print(f"{page.name} {outcome}, {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
