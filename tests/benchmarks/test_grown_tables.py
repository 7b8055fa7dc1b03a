"""The tables of trees that grow by stumps: units of one fit, chosen by validation, judged apart."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bitvec
from bitvec.converters.native.e2edt import from_e2edt

ROOT = Path(__file__).resolve().parents[2]
TABLES = ["cpt", "e2edt"]


def _table(name):
    from importlib import import_module

    return import_module(f"benchmarks.tables.{name}")


def _targets(summary, records, *, whole=True):
    benchmark = summary.BENCHMARK
    return benchmark.targets(benchmark.figures(records), whole=whole)


@pytest.mark.parametrize("name", TABLES)
def test_a_unit_is_one_fit_that_a_file_of_json_can_name(name):
    units = _table(name).units(quick=False)
    assert len(set(units)) == len(units)
    for unit in units:
        assert tuple(json.loads(json.dumps(unit))) == unit
        assert json.loads(unit[3]).__class__ is dict


@pytest.mark.parametrize("name", TABLES)
def test_what_has_a_goal_is_measured_before_what_has_none(name):
    from benchmarks.tables.grown import DTSEMNET

    summary = _table(name)
    always = _targets(summary, [])

    def has_goal(unit):
        trees = [{"trees": 10, "test": 0.9, "splits": 1.0}]
        kddt = {"rmse": 0.6, "leaves": 9, "rows_of_S": 8, "seconds": 1.0}
        record = _record(*unit[:3], json.loads(unit[3]), by_trees=trees, crisp=kddt, soft=kddt)
        record |= {"hard": 0.9, "soft": 0.9, "sharper": 1.0} if unit[0] == "steepness" else {}
        compared = unit[0] == "tree" and unit[1] in DTSEMNET
        return compared or len(_targets(summary, [record])) > len(always)

    found = [has_goal(unit) for unit in summary.units(quick=False)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 2


@pytest.mark.parametrize("name", TABLES)
def test_a_quick_run_has_few_units(name):
    assert 1 < len(_table(name).units(quick=True)) < 8


def _record(part, name, seed=0, settings=None, **told):
    facts = {
        "held_out": 0.9, "train": 1.0, "test": 0.9, "rmse": 0.5, "auc": 0.99, "leaves": 4,
        "rows_of_S": 3, "facets": 1, "splits": 2.0, "operations": 8.0, "seconds": 1.0,
    }  # fmt: skip
    return {"unit": [part, name, seed, json.dumps(settings or {})], **facts, **told}


def test_settings_are_chosen_by_rows_held_out_and_never_by_test_rows():
    from benchmarks.tables.grown_summary import rows

    (row, _) = rows(
        [
            _record("tree", "usps", 0, {"max_depth": 4}, held_out=0.8, test=0.99, seconds=10),
            _record("tree", "usps", 0, {"max_depth": 6}, held_out=0.9, test=0.70, seconds=20),
            _record("tree", "usps", 1, {"max_depth": 4}, held_out=0.9, test=0.60, leaves=6),
            _record("tree", "usps", 1, {"max_depth": 6}, held_out=None, test=0.99),
        ]
    )
    assert row["test_by_seed"] == [0.7, 0.6]
    assert row["test"] == pytest.approx(0.65)
    assert row["leaves"] == 5
    assert row["chosen"] == [{"max_depth": 6}, {"max_depth": 4}]
    assert (row["seeds"], row["settings"]) == (2, 2)
    assert row["seconds_with_choice"] == 16


def test_a_fixed_depth_is_told_apart_and_is_one_of_those_to_choose_from():
    from benchmarks.tables.grown_summary import rows

    found = rows(
        [
            _record("depth 2", "connect-4", 0, {"max_depth": 2}, held_out=0.82, test=0.81),
            _record("tree", "connect-4", 0, {"max_depth": 3}, held_out=0.80, test=0.83),
        ]
    )
    assert {row["part"]: row["test"] for row in found if "test" in row} == {
        "depth 2": 0.81,
        "tree": 0.81,
    }


def _records(name):
    found = [
        _record("tree", "letter", 0, test=0.93, leaves=400),
        _record("tree", "letter", 1, test=0.92, leaves=470),
        _record("tree", "mnist", test=0.96),
        _record("seconds", "letter, depth 10", seconds=89.0),
        _record("cart", "california", rmse=0.57),
        _record("values", "california", 0, {"max_depth": 6}, held_out=-0.6, rmse=0.4),
        _record("values", "california", 0, {"max_depth": 8}, held_out=-0.5, rmse=0.55),
    ]
    kddt = {"rmse": 0.6, "leaves": 9, "rows_of_S": 8, "seconds": 1.0}
    found.append(_record("kddt", "california", crisp=kddt, soft=kddt | {"rmse": 0.58}))
    found += [
        _record("tree", data, test=test)
        for data, test in (("balance", 0.95), ("blood", 0.7), ("sonar", 0.83), ("segment", 0.97))
    ]
    if name == "cpt":
        found += [_record("annulus", "annulus", seed, auc=0.98 + seed / 100) for seed in (0, 1)]
        found += [_record("depth 2", "connect-4", test=0.8, held_out=0.8)]
        found += [_record("tree", "connect-4", test=0.82)]
        return found
    first = [{"trees": 1, "test": 0.8, "splits": 9.0}, {"trees": 70, "test": 0.96, "splits": 600.0}]
    settings = {"rise": 0.01, "epochs": 30, "n_estimators": 10}
    return [
        *found,
        _record("forest", "letter", test=0.96, by_trees=first),
        _record("forest", "usps", test=0.95, held_out=0.97, by_trees=first),
        _record("cnn", "mnist", test=0.979),
        _record("steepness", "usps", 0, settings, hard=0.9, soft=0.91, sharper=2, by_trees=first),
    ]


EXPECTED = {
    "cpt": {
        "annulus: least AUC of all seeds": True,
        "annulus: leaves": False,
        "annulus: most facets of a node": True,
        "letter: most leaves": False,
        "letter: test accuracy": True,
        "connect-4, depth 2: test accuracy": False,
        "connect-4: test accuracy": True,
        "mnist: test accuracy": False,
        "data sets at or above DTSemNet's figure": False,
        "letter, depth 10: seconds on 2 threads": True,
        "hours on 2 cores": True,
    },
    "e2edt": {
        "letter: test accuracy": True,
        "letter, forest of 70: test accuracy": True,
        "usps, forest of 70: test accuracy": False,
        "usps, forest of 70: accuracy on validation rows, as the paper's": True,
        "mnist: test accuracy": True,
        "mnist, CNN splits: test accuracy": False,
        "data sets at or above DTSemNet's figure": False,
        "letter, depth 10: seconds on 2 threads": True,
        "hours on 2 cores": True,
    },
}


def test_the_hours_of_a_table_are_those_of_all_fits():
    from benchmarks.tables.grown_summary import hours

    halves = {kind: {"seconds": 1800.0} for kind in ("crisp", "soft")}
    records = [
        _record("tree", "balance", seconds=3600.0, seconds_of_folds=7200.0),
        {"unit": ["kddt", "california", 0, "{}"], **halves},
    ]
    assert hours(records) == 2.0
    assert hours([*records, _record("cnn", "mnist", seconds=72.0)]) == 2.01


@pytest.mark.parametrize("name", TABLES)
def test_a_target_is_judged_by_its_own_rows_only(name):
    summary = _table(name)
    found = _targets(summary, _records(name))
    assert {target["name"]: target["met"] for target in found} == EXPECTED[name]
    found = _targets(summary, _records(name), whole=False)
    assert {target["met"] for target in found} == {None}


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_made_of_any_rows(name):
    summary = _table(name)
    for records in ([], _records(name)):
        report = json.loads(json.dumps({"rows": summary.BENCHMARK.figures(records)}))
        text = summary.BENCHMARK.tables["table"](report)
        assert ("| letter | 2 | 92.5 ± 0.5 | 100.0 | 435 |" in text) == bool(records)
        beside = summary.BENCHMARK.tables["values"](report)
        assert ("| this tree | 0.550 | 4 | 3 | 1 |" in beside) == bool(records)
        assert ("crisp | 0.600 |" in beside) == bool(records)
        if name == "cpt":
            assert ("0.980, 0.990" in summary.annulus(report)) == bool(records)
        else:
            row = "| letter | each tree refined | 70 | 96.0 | 90.0 | 600.0 |"
            assert (row in summary.forests(report)) == bool(records)
            row = "| usps | 0.01 | 30 | 90.0 | 91.0 | 80.0 | 4 | 1 | 95.3 |"
            assert (row in summary.steepness(report)) == bool(records)


def test_every_row_of_few_is_left_out_once_while_settings_are_tried():
    from benchmarks.tables.grown import crossed

    told = []

    class Model:
        def fit(self, X, y):
            self.seen = set(X.ravel())
            return self

        def score(self, X, y):
            assert not self.seen & set(X.ravel())
            assert len(self.seen) + len(X) == 103
            told.extend(X.ravel())
            return float(np.mean(y))

    X = np.arange(103.0)[:, None]
    y = (X[:, 0] < 10).astype(float)
    assert crossed(Model, X, y, 3) == pytest.approx(10 / 103)
    assert sorted(told) == list(range(103))


def _tree(phi=None):
    """Two nodes: rows of x0 > 0 go on to the second, which reads x1 alone."""
    return from_e2edt(
        [[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], left=[-1, -2], right=[1, -3], phi=phi,
        pi=[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], gamma=3.0,
    )  # fmt: skip


def test_multiply_adds_are_those_of_the_nodes_that_a_row_passes():
    from benchmarks.tables.grown import sizes

    X = np.array([[-1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [1.0, 1.0]])
    found = sizes(bitvec.convert(_tree()), X)
    assert found == {"leaves": 3, "rows_of_S": 2, "facets": 1, "splits": 1.25, "operations": 2.25}


def test_multiply_adds_of_a_network_are_counted_at_each_node_that_asks_its_own():
    from benchmarks.tables.grown import network_operations, sizes
    from bitvec.core.feature_maps import Conv2d, Flatten, Layers, Linear, MaxPool2d, ReLU

    image = (Conv2d(np.ones((3, 1, 2, 2))), ReLU(), MaxPool2d((3, 3)), Flatten())
    first = Layers((*image, Linear(np.ones((2, 3)))), (1, 4, 4))
    second = Layers((Linear(np.ones((2, 16))), ReLU()), (16,))
    forest = bitvec.convert(_tree([first, second]))
    conv, linear = 3 * 4 * 9, 6  # of windows at 3 x 3 places, and of what is left of them
    assert network_operations(forest).tolist() == [conv + linear, 32]
    row = np.ones((1, 16))
    assert sizes(forest, row)["operations"] == 2 + conv + linear + 1 + 32


def test_the_first_trees_of_a_forest_are_tested_as_a_forest():
    from benchmarks.tables.forests import by_trees
    from benchmarks.tables.grown import sizes
    from bitvec.converters.native.e2edt import from_e2edf

    drawn = np.random.default_rng(0)
    X, y = drawn.normal(size=(200, 5)), drawn.integers(0, 3, 200)
    options = {"n_estimators": 3, "max_depth": 3, "steps": 3, "refine": 0, "random_state": 0}
    model = bitvec.learners.E2EDFClassifier(**options).fit(X, y + 4)
    found = by_trees(model, (X, y + 4))
    assert [one["trees"] for one in found] == [1, 3]
    alone = from_e2edf(model.trees_[:1])
    assert found[0]["test"] == np.mean(np.asarray(alone.predict(X)) == y + 4)
    assert found[0]["splits"] == pytest.approx(sizes(bitvec.convert(alone), X)["splits"])
    assert found[1]["test"] == model.score(X, y + 4)
    assert found[1]["splits"] == pytest.approx(sizes(model.forest_, X)["splits"])


@pytest.mark.parametrize("rise", [0.0, 0.01, 0.1])
def test_steepness_rises_by_as_much_in_each_epoch_and_goes_on_in_the_refinement(rise):
    from benchmarks.tables.forests import BATCH, steepness_settings
    from bitvec.runtime.train.retrain.schedules import steepness

    epochs, n_rows = 30, 13_600
    options = steepness_settings(rise, epochs, n_rows)
    of_epoch = options["steps"] // epochs
    assert (of_epoch - 1) * BATCH < n_rows <= of_epoch * BATCH
    grown = steepness(options["gamma"], "linear")
    refined = steepness(options["refine_gamma"], "linear")
    for epoch in range(epochs + 1):
        part = epoch * of_epoch / options["steps"]
        assert grown(part) == pytest.approx(1 + rise * epoch)
    for epoch in range(3 * epochs + 1):
        part = epoch * of_epoch / options["refine"]
        assert refined(part) == pytest.approx(1 + rise * (epochs + epoch))


def test_soft_leaves_of_a_steep_tree_are_class_shares_and_em_never_lowers_the_likelihood():
    from benchmarks.tables.forests import soft_leaves

    drawn = np.random.default_rng(1)
    X = drawn.normal(size=(400, 2))
    code = drawn.integers(0, 2, 400) | (X[:, 1] > 0.5)
    steep = replace(_tree(), gamma=1e6)
    leaf = steep.decide(X)
    share = np.array([np.mean(code[leaf == one]) for one in range(3)])
    np.testing.assert_allclose(soft_leaves(steep, X, code, 2)[:, 1], share, atol=1e-6)

    def likelihood(steps):
        pi = soft_leaves(_tree(), X, code, 2, steps=steps)
        return np.log((_tree().memberships(X) @ pi)[np.arange(400), code]).sum()

    told = [likelihood(steps) for steps in range(6)]
    assert np.all(np.diff(told) > -1e-9)
    assert told[-1] > told[0]


def test_the_unit_of_a_steepness_tells_hard_and_soft_accuracy():
    from benchmarks.datasets import Table
    from benchmarks.tables.forests import SHARPER, steepness

    drawn = np.random.default_rng(0)
    X = drawn.normal(size=(300, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int) + 1
    settings = {"rise": 0.1, "epochs": 10, "n_estimators": 3, "max_depth": 2, "max_features": 3}
    told = steepness(settings, Table(X, y, 200), 0)
    assert told["hard"] == told["by_trees"][-1]["test"]
    assert told["sharper"] in SHARPER
    assert min(told["hard"], told["soft"]) > 0.6


def _folder_of_data(folder):
    """Write small data sets in the formats of the real ones."""
    drawn = np.random.default_rng(0)
    X = drawn.normal(size=(200, 4)).round(3)
    label = (X[:, 0] + X[:, 1] > 0).astype(int)
    for name, file, first in (
        ("banknote", "data_banknote_authentication.txt", False),
        ("balance_scale", "balance-scale.data", True),
    ):
        (folder / name).mkdir()
        lines = [
            ",".join(map(str, [y, *row] if first else [*row, y]))
            for row, y in zip(X, label, strict=True)
        ]
        (folder / name / file).write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.full
@pytest.mark.parametrize("name", TABLES)
def test_the_tables_run_quickly_and_go_on_from_what_is_done(name, tmp_path):
    work = tmp_path / "work"
    command = [sys.executable, "-m", "benchmarks.tables", name, "--quick", "--json"]
    command += ["--data", str(_folder_of_data(tmp_path)), "--work", str(work)]
    reports = []
    for more in ([], ["--done"]):
        result = subprocess.run(
            [*command, *more], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
        )
        assert result.returncode == 0, result.stderr
        reports.append(json.loads(result.stdout))
    assert reports[0]["rows"] == reports[1]["rows"]
    assert {target["met"] for target in reports[0]["targets"]} == {None}
    assert all(row["test"] > 0.7 for row in reports[0]["rows"] if row["part"] == "tree")
