"""Write the tables of the README and the docs: `python -m benchmarks.render [--check]`.

A block between `<!-- table: NAME -->` and `<!-- end -->` is made from the kept run of the benchmark
NAME, of `highlights` from several runs, of `formats`, `targets`, `programs`, `unexplained` and
`limits` from the tables and numbers that the package itself reads, of `versions` from the results
of `tests/versions`, and of `examples` from what their long forms printed. A benchmark with several
tables names one as `NAME.TABLE`, as do the tables of papers, `tables-PAPER.TABLE`.
The pictures of `PLOTS` are drawn from the same runs; those of `EXAMPLES` show models that are
fitted on the spot.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import highlights, limits, tested
from benchmarks.report import RESULTS
from benchmarks.runner import load
from bitvec.converters.dispatch import FORMATS
from bitvec.explanations.unsupported import unsupported_table
from bitvec.runtime.export.onnx_targets import TARGETS
from bitvec.runtime.export.program_targets import PROGRAM_TARGETS

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- table: ([\w-]+)(?:\.(\w+))? -->\n).*?(<!-- end -->)", re.DOTALL)
PLOTS = {
    "convergence": ("convergence", "convergence"),
    "engine": ("engine", "engine.plot"),
    "kddt": ("tables-kddt", "tables.kddt_plot"),
    "predict": ("data", "data"),
    "retrain": ("retrain", "retrain.instead"),
    "serve": ("data", "service_load"),
    "speed": ("engine", "highlights"),
    "tao": ("tables-tao", "tables.tao_plot"),
}
"""Plots of kept runs: the run, and the module that draws it."""
EXAMPLES = (
    "annealing_plot",
    "explanation_plots",
    "representation_plots",
    "tables.cpt_plot",
    "tables.e2edt_plot",
    "tutorial_plots",
)
"""Modules that draw what they fit themselves, of no run."""


def rendered(text: str) -> str:
    """Return the text with each block between markers made anew."""

    def block(match: re.Match[str]) -> str:
        head, name, part, end = match.groups()
        static = {"formats": formats, "highlights": highlights.table, "targets": targets}
        if name == "examples":
            static["examples"] = lambda: output(part)
        static |= {"programs": programs, "unexplained": unsupported_table, "limits": limits.table}
        if name == "versions":
            static["versions"] = getattr(tested, part)
        table = static[name]() if name in static else _run(name, part or "table")
        return head + table + "\n" + end

    return BLOCK.sub(block, text)


def _run(name: str, part: str) -> str:
    path = RESULTS / f"{name}.json"
    of_paper = name.removeprefix("tables-")
    command = name if of_paper == name else f"tables {of_paper} --data FOLDER"
    if not path.exists():
        return f"No run is kept yet: `python -m benchmarks.{command} --save` keeps one."
    report = json.loads(path.read_text(encoding="utf-8"))
    table = load(name).tables[part](report)
    has_rows = len(table.splitlines()) > 2 or not table.startswith("|")
    return table if has_rows else f"Not in the kept run: `python -m benchmarks.{command}` does it."


def draw() -> None:
    """Draw the runs that are kept, and the examples."""
    for module in EXAMPLES:
        import_module(f"benchmarks.{module}").draw(ROOT / "docs")
    for plot, (run, module) in PLOTS.items():
        path = RESULTS / f"{run}.json"
        if path.exists():
            report = json.loads(path.read_text(encoding="utf-8"))
            import_module(f"benchmarks.{module}").draw(report, ROOT / "docs" / f"{plot}.svg")


def formats() -> str:
    """Return what is converted and what is refused, by source, in Markdown."""
    parts = []
    for source in FORMATS:
        lines = [f"### {source.name}", ""]
        if source.made_by:
            lines += [f"A file: `{source.made_by}`.", ""]
        lines += ["| | |", "|---|---|", f"| converts | {', '.join(source.supported)} |"]
        lines += [f"| refused: {what} | {why} |" for what, why in source.unsupported]
        if source.writes:
            lines.append(f'| written back | `bitvec.export(forest, path, to="{source.writes}")` |')
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def output(example: str) -> str:
    """Return what the long form of an example printed."""
    return (ROOT / "examples" / "outputs" / f"{example}.md").read_text(encoding="utf-8").strip()


def targets() -> str:
    """Return the runtimes of ONNX files, in Markdown."""
    lines = [
        "| target | forms | opset, ai.onnx.ml, IR | float64 | batch | held to the reference "
        "| what to set | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for target in TARGETS.values():
        versions = f"{target.opset}, {target.ml_opset or 'none'}, {target.ir_version}"
        cells = [
            f"`{target.name}`",
            ", ".join(target.forms),
            versions,
            "yes" if target.float64 else "no",
            "fixed" if target.fixed_batch else "any",
            target.measured or "not run",
            " ".join([target.settings, *(f"`{f}`: {text}" for f, text in target.form_settings)]),
            target.source,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def programs() -> str:
    """Return the runtimes of exported programs, in Markdown."""
    lines = [
        "| file | runtime | extra | rows of a call | form | refused besides | bits of raw scores "
        "| certified with |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for target in PROGRAM_TARGETS:
        cells = [
            target.ending,
            target.runtime,
            f"`{target.extra}`",
            target.rows,
            target.form,
            target.refuses,
            target.exact,
            target.measured,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Rewrite the pages, or with --check exit 1 where one differs."""
    check = "--check" in sys.argv[1:]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if check and rendered(text) != text:
            sys.exit(f"The tables of {page.name} must be made anew: python -m benchmarks.render.")
        if not check:
            page.write_text(rendered(text), encoding="utf-8")
    if not check:
        draw()


if __name__ == "__main__":
    main()
