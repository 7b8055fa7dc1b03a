"""Write the tables of the README from the kept runs: `python -m benchmarks.render [--check]`."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.report import RESULTS

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str) -> str:
    """Return the text with each block between markers made anew from its benchmark's kept run."""

    def block(match: re.Match[str]) -> str:
        name = match.group(2)
        report = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        return match.group(1) + import_module(f"benchmarks.{name}").table(report) + "\n" + match[3]

    return BLOCK.sub(block, text)


def main() -> None:
    """Rewrite the README, or with --check exit 1 where it differs."""
    text = README.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        sys.exit(0 if rendered(text) == text else "README's tables differ from the kept runs.")
    README.write_text(rendered(text), encoding="utf-8")


if __name__ == "__main__":
    main()
