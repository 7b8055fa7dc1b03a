"""`bitvec plot`: each picture, and what it needs and has no use for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bitvec.cli.plot import PICTURES
from bitvec.cli.program import program

pytest.importorskip("matplotlib")
MARKS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
GIVEN = {
    "data": "bare.csv", "target": "label", "row": "1", "tree": "0", "column": "0",
    "output": "0",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    lightgbm = pytest.importorskip("lightgbm")
    folder, rng = tmp_path_factory.mktemp("plot"), np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    options = {"objective": "binary", "num_leaves": 5, "verbose": -1}
    lightgbm.train(options, lightgbm.Dataset(X, y), 4).save_model(folder / "model.txt")
    names = "Column_0,Column_1,Column_2"
    bare = [names, *(",".join(map(str, x)) for x in X.tolist())]
    (folder / "bare.csv").write_text("\n".join(bare))
    labels = ["label", *map(str, y)]
    (folder / "rows.csv").write_text("\n".join(map(",".join, zip(bare, labels, strict=True))))
    return folder


def plot(folder: Path, picture: str, *options: str, out: str = "picture.png") -> Result:
    asked = ["plot", str(folder / "model.txt"), picture, "-o", str(folder / out), *options]
    return CliRunner().invoke(program, asked)


def options(folder: Path, names: frozenset[str]) -> list[str]:
    values = {**GIVEN, "data": str(folder / ("rows.csv" if "target" in names else "bare.csv"))}
    return [part for name in sorted(names) for part in (f"--{name}", values[name])]


@pytest.mark.parametrize("picture", PICTURES)
def test_each_picture_is_drawn_with_what_it_needs_and_with_all_that_it_takes(folder, picture):
    _, needs, takes = PICTURES[picture]
    for names, suffix in ((needs, ".png"), (needs | takes, ".svg")):
        found = plot(folder, picture, *options(folder, names), out=f"{picture}{suffix}")
        assert found.exit_code == 0, found.output
        assert (folder / f"{picture}{suffix}").read_bytes().startswith(MARKS[suffix])


@pytest.mark.parametrize("picture", PICTURES)
def test_what_is_missing_or_of_no_use_is_told_before_any_work(folder, picture):
    _, needs, takes = PICTURES[picture]
    for name in needs:
        found = plot(folder, picture, *options(folder, needs - {name}), out="none.png")
        assert found.exit_code == 2
        assert f"{picture} must come with --{name}" in found.stderr
    for name in set(GIVEN) - needs - takes:
        found = plot(folder, picture, *options(folder, needs | {name}), out="none.png")
        assert found.exit_code == 2
        assert f"--{name} must be left out" in found.stderr
    assert not (folder / "none.png").exists()


def test_two_columns_make_a_map_and_three_are_refused(folder):
    named = ["--data", str(folder / "bare.csv"), "--column", "0", "--column", "1"]
    assert plot(folder, "partial-dependence", *named, out="map.pdf").exit_code == 0
    assert (folder / "map.pdf").read_bytes().startswith(MARKS[".pdf"])
    assert "at most twice" in plot(folder, "dependence", *named, "--column", "2").stderr


def test_a_row_or_tree_that_there_is_not_is_one_sentence(folder):
    data = ["--data", str(folder / "bare.csv")]
    late = plot(folder, "waterfall", *data, "--row", "200")
    assert late.exit_code == 2
    assert "--row must be below 200" in late.stderr
    assert "--tree must be below 4" in plot(folder, "matrices", "--tree", "4").stderr
