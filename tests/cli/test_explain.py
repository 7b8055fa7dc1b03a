"""`bitvec explain`: values in files, by cover and with background rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
from click.testing import Result

import bitvec

Run = Callable[..., Result]


def test_values_of_a_file_sum_to_its_raw_scores(run: Run, desk: Path) -> None:
    forest = bitvec.convert(desk / "cancer.ubj")
    X = polars.read_csv(desk / "cancer.csv")
    raw = bitvec.compile(forest).raw(X)[:, 0]
    for more in ([], ["--background", "cancer.csv"]):
        result = run("explain", "cancer.ubj", "cancer.csv", "-o", "values.csv", "--json", *more)
        assert result.exit_code == 0, result.output
        told = json.loads(result.output)
        values = polars.read_csv(desk / "values.csv")
        assert values.columns == X.columns
        total = values.to_numpy().sum(axis=1) + told["base_value"][0]
        np.testing.assert_allclose(total, raw, rtol=1e-5, atol=1e-5)


def test_several_outputs_have_a_column_each(run: Run, desk: Path) -> None:
    assert run("convert", "tree.skops", "-o", "i.safetensors").exit_code == 0
    result = run("explain", "i.safetensors", "iris.csv", "-o", "values.npy")
    assert result.exit_code == 0, result.output
    assert "base value" in result.output
    assert np.load(desk / "values.npy").shape[1] == 4 * 3
