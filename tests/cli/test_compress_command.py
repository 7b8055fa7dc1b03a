"""`bitvec compress`: a smaller model in a file, whole or not at all, and a report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import Result

from bitvec import api
from bitvec.compression import boosters, families
from bitvec.compression.model_costs import table_bytes

Run = Callable[..., Result]

COMPRESS = ("compress", "tree.skops", "iris-y.csv", "--target", "species", "--budget")


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds: the command is the same."""
    for name in [name for name in boosters.LIBRARIES if name != "sklearn"]:
        monkeypatch.delitem(boosters.LIBRARIES, name)
    module = import_module("bitvec.compression.compress")
    monkeypatch.setattr(boosters, "ALONE", (4,))
    monkeypatch.setattr(families, "FOREST_LEAVES", (16,))
    monkeypatch.setattr(module, "SHARES", (1.0,))
    monkeypatch.setattr(module, "_joint", lambda task: {})


def test_a_model_is_compressed_into_a_file(run: Run, desk: Path) -> None:
    given = ("-o", "small.safetensors", "--json", "--checkpoint", "work")
    result = run(*COMPRESS, "400 B", *given)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["chosen"]["bytes"] <= 400
    forest = api.convert(desk / "small.safetensors")
    assert table_bytes(forest) == told["chosen"]["bytes"]
    assert (desk / "work" / "run.json").exists()
    again = run(*COMPRESS, "400 B", *given)
    assert json.loads(again.stdout)["chosen"]["recipe"] == told["chosen"]["recipe"]


@pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler is installed"
)
def test_a_header_is_certified_before_it_is_written(run: Run, desk: Path) -> None:
    result = run(*COMPRESS, "0.3 KB", "-o", "small.h", "--certify", "--name", "iris")
    assert result.exit_code == 0, result.output
    assert "bytes  leaves" in result.stdout
    assert "the compressed model is in small.h" in result.stdout
    assert "given model was left out" in result.stderr
    assert "static inline void iris_raw" in (desk / "small.h").read_text()
    assert (desk / "small.h.certificate.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*COMPRESS, "much", "-o", "a.h"), "`budget` must be a number of bytes"),
        ((*COMPRESS, "1", "-o", "a.h"), "room for one tree"),
        ((*COMPRESS, "1 KB", "-o", "a.txt"), "must end in"),
        ((*COMPRESS, "1 KB", "-o", "a.h", "--name", "2"), "`name` must"),
        ((*COMPRESS, "1 KB", "-o", "a.h", "--validation", "2"), "--validation must be"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    run: Run, desk: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(desk.glob("a.*"))
