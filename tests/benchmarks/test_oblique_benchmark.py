"""Oblique forests against boosters: leaves that a rival may have, signs, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest


def row(data="letter", leaves=1024, ours=0.9, classes=26, seed=0, **told):
    from benchmarks.oblique import RIVALS

    found = {"data": data, "leaves": leaves, "seed": seed, "ours": ours, "classes": classes}
    found |= {"seconds": 10.0, "chosen": "labels"}
    for rival in RIVALS:
        found |= {rival: 0.8, f"{rival}, p": 0.01}
    return found | told


@pytest.mark.parametrize(("rival", "most"), [("rounds", 1024), ("strict", 1024 // 26)])
def test_a_rival_has_no_more_leaves_than_ours(rival, most):
    from benchmarks.oblique import _allowed

    allowed = _allowed(rival, 1024, 26)
    assert allowed
    assert all(leaves * rounds <= most for leaves, rounds in allowed.items())
    assert _allowed("strict", 1024, 2) == _allowed("rounds", 1024, 2)


def test_signs_need_significance_and_know_which_way_is_better():
    from benchmarks.oblique import sign

    assert sign(row(), "rounds") == "+"
    assert sign(row(ours=0.7), "rounds") == "-"
    assert sign(row(classes=0), "rounds") == "-"  # an error that is larger
    assert sign(row(**{"rounds, p": 0.06}), "rounds") == "0"


def test_differences_are_tested_in_pairs():
    from benchmarks.oblique import _p_value

    y = np.arange(20) % 2
    assert _p_value(y, y, y) == 1
    assert _p_value(y, 1 - y, y) == pytest.approx(2 * 0.5**20)
    values = y.astype(float)
    assert _p_value(values, values + np.linspace(1, 2, 20), values) < 1e-6


def test_a_set_counts_as_better_on_every_seed_and_as_worse_on_any():
    from benchmarks.oblique import BENCHMARK

    rows = [row(), row(seed=1), row("usps"), row("usps", seed=1, ours=0.7)]
    found = {goal["name"]: goal for goal in BENCHMARK.targets(rows, whole=True)}
    assert found["1024 leaves, rounds: sets significantly better"]["value"] == 1
    assert found["1024 leaves, rounds: sets significantly worse"]["value"] == 1
    assert not found["1024 leaves, strict: sets significantly better"]["met"]


def test_tables_show_what_was_measured():
    from benchmarks.oblique import BENCHMARK

    report = {"rows": [row(), row("bike", 128, classes=0)]}
    first, second = (table(report) for table in BENCHMARK.tables.values())
    assert "| letter | 0.9000 | labels | 0.8000 | + |" in first
    assert "bike (RMSE)" in second
