"""Commands in the README and the docs: those of the README run, the options of all exist."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from bitvec.cli.program import program

Run = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMAND = re.compile(r"^ {4}bitvec (.*?)(?: +#.*)?$|`bitvec ((?:\w+ )[^`]*)`", re.MULTILINE)


def commands(page: Path) -> list[str]:
    text = re.sub(r"```python.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [" ".join((a or b).split()) for a, b in COMMAND.findall(text)]


def test_the_session_of_the_readme_runs(run: Run, desk: Path, models: dict[str, Any]) -> None:
    shutil.copy("cancer.ubj", "model.ubj")
    models["cancer"].assign(label=models["cancer_y"]).to_csv("rows.csv", index=False)
    session = [line for line in commands(ROOT / "README.md") if line.split()[0].islower()]
    assert len(session) > 5
    for line in session:
        result = run(*shlex.split(line))
        assert result.exit_code == 0, (line, result.output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_options_exist(page: Path) -> None:
    for line in commands(page):
        name, *words = shlex.split(line)
        if name == "COMMAND":
            continue
        command = program.get_command(click.Context(program), name)
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known | {"--help", "-h"}, line
