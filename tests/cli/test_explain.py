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


def test_probabilities_are_explained_exactly_or_by_permutations(run: Run, desk: Path) -> None:
    predictor = bitvec.compile(bitvec.convert(desk / "cancer.ubj"))
    chances = predictor.scores(polars.read_csv(desk / "cancer.csv"))[:, 0]
    call = ("explain", "cancer.ubj", "cancer.csv", "-o", "values.npy", "--response", "scores")
    assert "pass rows as `background`" in run(*call).output
    few = ("--background", "few.npy", "--json")
    np.save(desk / "few.npy", polars.read_csv(desk / "cancer.csv").to_numpy()[:3])
    result = run(*call, *few, "--permutations", "2")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    total = np.load(desk / "values.npy").sum(axis=1) + told["base_value"][0]
    np.testing.assert_allclose(total, chances, rtol=0, atol=1e-6)


def test_oblique_trees_of_many_columns_are_sampled(run: Run, desk: Path) -> None:
    forest = bitvec.Forest.from_matrices(np.ones((1, 20)), [0.5], [[0], [1]], [1, 2])
    bitvec.save(forest, desk / "wide.safetensors")
    np.save(desk / "rows.npy", np.random.default_rng(0).normal(size=(9, 20)))
    call = ("explain", "wide.safetensors", "rows.npy", "-o", "values.npy")
    assert "got some" in run(*call).output
    assert "pass `permutations`" in run(*call, "--background", "rows.npy").output
    result = run(*call, "--background", "rows.npy", "--permutations", "3")
    assert result.exit_code == 0, result.output
    assert "standard errors up to" in result.output
    total = np.load(desk / "values.npy").sum(axis=1)
    base = bitvec.explain(forest, background=np.load(desk / "rows.npy"), permutations=2).base_value
    raw = bitvec.compile(forest).raw(np.load(desk / "rows.npy"))[:, 0]
    np.testing.assert_allclose(total + base, raw, rtol=1e-12)
