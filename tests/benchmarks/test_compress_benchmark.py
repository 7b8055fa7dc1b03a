"""The benchmark of compression: bytes of networks, tests of cases, and figures of their rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

from benchmarks import compress
from benchmarks.compress import figures_of_runs
from benchmarks.compress.rivals import Network, units


def test_a_network_takes_no_more_bytes_than_it_may():
    for size, p, k in ((4096, 16, 26), (16384, 54, 7), (4096, 8, 1)):
        n = units(size, p, k)
        assert n * (p + k + 4) + 4 * k <= size
        assert n == compress.rivals.MOST_UNITS or (n + 1) * (p + k + 4) + 4 * k > size


def test_a_network_learns_with_weights_of_eight_bits():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    network = Network((X[:200], y[:200]), (X[200:250], y[200:250]), 2, 0)
    assert network.fit(36) == 4
    assert np.mean(network.answer(X[250:]) == y[250:]) > 0.9
    for weights in network.parts[0]:
        for unit in weights.T:
            steps = unit / (np.abs(unit).max() / 127 + 1e-12)
            assert np.allclose(steps, np.round(steps), atol=1e-6)


def test_signs_say_who_is_better():
    hits = compress._Hits(np.zeros((100, 1)), np.zeros(100), 2)
    good, bad = np.ones(100), np.zeros(100)
    assert figures_of_runs.sign(hits.p(good, bad)) == "+"
    assert figures_of_runs.sign(hits.p(bad, good)) == "-"
    assert figures_of_runs.sign(hits.p(good, good)) == "0"
    errors = compress._Hits(np.zeros((100, 1)), np.zeros(100), 0)
    noise = np.random.default_rng(0).random(100)
    assert figures_of_runs.sign(errors.p(noise, 2 * noise + 1)) == "+"


def made(name, seed, ours, theirs, p):
    ways = {
        way: {"score": theirs, "p": p, "bytes": 9, "recipe": way} for way in figures_of_runs.WAYS
    }
    ways["compress"] = {"score": ours, "bytes": 9, "recipe": "best", "program": 100}
    return {
        "set": name, "seed": seed, "n_rows": 9, "measure": "accuracy", "deviation": 1.0,
        "seconds": 1.0, "cpu_s": 1.0, "saved by": "skops", "forest_score": ours,
        "file_bytes": 5000, "file_small": {"bytes": 90, "score": ours - 0.001},
        "header_bytes": 1000, "sizes": {"4": ways},
    }  # fmt: skip


def test_figures_are_means_over_seeds_and_goals_count_runs():
    rows = figures_of_runs.figures([made("a", 0, 0.9, 0.8, 0.01), made("a", 1, 0.8, 0.8, 1.0)])
    sized, whole = rows
    assert sized["compress"] == 0.85
    assert sized["signs booster"] == "+0"
    assert whole["file small bytes"] == 90
    assert whole["file points"] == pytest.approx(-0.1)
    assert whole["header points"] is None
    assert figures_of_runs.figures(rows) == rows
    goals = {goal.name: goal.value for goal in figures_of_runs.goals(rows)}
    assert goals["runs better than the tuned booster"] == "1 of 2"
    assert goals["runs worse than the tuned booster"] == "0 of 2"
    assert goals["sets better than the MLP"] == "1 of 1"
    near = [value for name, value in goals.items() if "RandomForest" in name]
    assert near == ["1 of 1", "0 of 1"]


def test_more_losses_than_chance_gives_equal_models_have_at_most_one_in_twenty():
    from scipy.stats import binom

    for n in (2, 24, 72):
        most = figures_of_runs.most_by_chance(n)
        assert binom.sf(most, n, figures_of_runs.LEVEL / 2) <= 0.05
        assert binom.sf(most - 1, n, figures_of_runs.LEVEL / 2) > 0.05


def test_a_saved_forest_is_as_long_as_its_file(tmp_path):
    from sklearn.ensemble import RandomForestClassifier

    X = np.random.default_rng(0).normal(size=(60, 2))
    model = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0)
    skops = pytest.importorskip("skops.io")
    skops.dump(model, tmp_path / "model.skops")
    n, of = compress.saved_bytes(model)
    assert of == "skops"
    assert abs(n - (tmp_path / "model.skops").stat().st_size) < 500
