"""Write the tables of the README and the docs: `python -m benchmarks.render [--check]`.

A block between `<!-- table: NAME -->` and `<!-- end -->` is made from the kept run of the benchmark
NAME, or, for `formats`, from the table that dispatches.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.report import RESULTS
from bitvec.formats import FORMATS

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str) -> str:
    """Return the text with each block between markers made anew."""

    def block(match: re.Match[str]) -> str:
        name = match.group(2)
        return match.group(1) + (formats() if name == "formats" else _run(name)) + "\n" + match[3]

    return BLOCK.sub(block, text)


def _run(name: str) -> str:
    report = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return import_module(f"benchmarks.{name}").table(report)


def formats() -> str:
    """Return what lifts and what is refused, by source, in Markdown."""
    parts = []
    for source in FORMATS:
        lines = [f"### {source.name}", ""]
        if source.made_by:
            lines += [f"A file: `{source.made_by}`.", ""]
        lines += ["| | |", "|---|---|", f"| lifts | {', '.join(source.lifts)} |"]
        lines += [f"| refused: {what} | {why} |" for what, why in source.refuses]
        if source.writes:
            lines.append(f'| written back | `bitvec.export(forest, path, to="{source.writes}")` |')
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    """Rewrite the pages, or with --check exit 1 where one differs."""
    check = "--check" in sys.argv[1:]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if check and rendered(text) != text:
            sys.exit(f"The tables of {page.name} must be made anew: python -m benchmarks.render.")
        if not check:
            page.write_text(rendered(text), encoding="utf-8")


if __name__ == "__main__":
    main()
