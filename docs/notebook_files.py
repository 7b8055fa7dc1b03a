"""Notebooks of the examples, made when the site is built: their cells are those of the scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
FOLDER = "notebooks"


def notebook_of(script: Path) -> Any:
    """Return the notebook of an example, whose last cell shows what the long form printed.

    Parameters
    ----------
    script : Path
        Of percent cells, as editors and jupytext read them.
    """
    import jupytext
    from nbformat.v4 import new_output

    notebook = jupytext.read(script)
    notebook.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python",
    }  # fmt: skip
    kept = (script.parent / "outputs" / f"{script.stem}.md").read_text(encoding="utf-8")
    notebook.cells[-1].outputs = [new_output("stream", text=kept)]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # by chance otherwise
    return notebook


def write(folder: Path) -> None:
    """Write a notebook for each example."""
    import nbformat

    folder.mkdir(exist_ok=True)
    for script in sorted(EXAMPLES.glob("*.py")):
        nbformat.write(notebook_of(script), folder / f"{script.stem}.ipynb")
