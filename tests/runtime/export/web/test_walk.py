"""The page's own walk down its trees is the reference's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import AXIS, EQUAL, OBLIQUE, POLYTOPE, SET, forests_with_rows

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.runtime.export.web.facts import forest_facts
from bitvec.runtime.export.web.pages import trees_json
from bitvec.runtime.export.web.tree_json import numbers

pytestmark = pytest.mark.full

HERE = Path(__file__).parent


def test_the_pages_walk_ends_in_the_references_leaves(node, tmp_path):
    jobs, expected = [], []

    @settings(max_examples=100, database=None)
    @given(forests_with_rows(kinds=(AXIS, SET, EQUAL, OBLIQUE, POLYTOPE)))
    def keep(drawn: tuple[Forest, np.ndarray]) -> None:
        forest, X = drawn
        facts = forest_facts(forest) | {"trees": trees_json(forest)}
        jobs.append({"page": facts, "rows": [numbers(x) for x in X]})
        with np.errstate(all="ignore"):
            expected.append(reference.exit_leaves(forest, X).tolist())

    keep()
    (tmp_path / "job.json").write_text(json.dumps(jobs))
    script = Path(bitvec.__file__).parent / "runtime" / "export" / "web" / "page" / "walk.js"
    (tmp_path / "walk.mjs").write_text(script.read_text())
    command = [node, str(HERE / "walk.mjs"), str(tmp_path / "walk.mjs"), str(tmp_path / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
