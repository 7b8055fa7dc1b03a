"""Growth goes on where it was killed and comes to the same tree, of the same training only."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.datasets import load_digits, load_iris

import bitvec
from bitvec.errors import FileFormatError, InputError
from bitvec.learners.growth import checkpoints, grow

KINDS = {
    "polytopes": lambda **how: bitvec.learners.CPTClassifier(n_facets=3, **how),
    "linear": lambda **how: bitvec.learners.E2EDTClassifier(**how),
    "best first": lambda **how: bitvec.learners.E2EDTClassifier(growth="best", max_leaves=6, **how),
    "mlp": lambda **how: bitvec.learners.E2EDTClassifier(split="mlp", hidden=4, **how),
}


class Killed(BaseException):
    pass


def model(kind, path=None, **how):
    options = {"max_depth": 4, "steps": 20, "refine": 0, "min_rows": 2, "random_state": 3}
    return KINDS[kind](**{**options, **how}, checkpoint_path=path)


def same(one, other, X):
    return np.array_equal(one.tree_.values, other.tree_.values) and np.array_equal(
        one.predict_proba(X), other.predict_proba(X)
    )


@pytest.fixture
def writes_always(monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", -1.0)


@pytest.fixture
def trained(monkeypatch):
    """How many stumps were trained; more than allowed kill the run."""
    counted = {"stumps": 0, "allowed": np.inf}
    train = grow.train_stumps

    def counting(X, target, weight, rows, *rest):
        if counted["stumps"] >= counted["allowed"]:
            raise Killed
        counted["stumps"] += len(rows)
        return train(X, target, weight, rows, *rest)

    monkeypatch.setattr(grow, "train_stumps", counting)
    return counted


@pytest.mark.parametrize("kind", KINDS)
def test_growth_goes_on_after_a_kill(kind, tmp_path, writes_always, trained):
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y = X[:400], y[:400]
    straight = model(kind).fit(X, y)
    of_all = trained["stumps"]
    trained.update(stumps=0, allowed=3)
    path = tmp_path / "fit.safetensors"
    with pytest.raises(Killed):
        model(kind, path).fit(X, y)
    before = trained["stumps"]
    trained.update(stumps=0, allowed=np.inf)
    assert same(model(kind, path).fit(X, y), straight, X)
    assert trained["stumps"] == of_all - before
    assert same(model(kind, path).fit(X, y), straight, X)
    assert trained["stumps"] == of_all - before  # all of them were kept


def forest(path=None, **how):
    options = {"n_estimators": 3, "max_depth": 3, "steps": 8, "refine": 12, "random_state": 3}
    return bitvec.learners.E2EDFClassifier(**{**options, **how}, checkpoint_path=path)


def test_a_forest_goes_on_after_a_kill_and_to_more_trees(tmp_path, writes_always, trained):
    X, y = load_iris(return_X_y=True)
    straight = forest().fit(X, y)
    of_all = trained["stumps"]
    trained.update(stumps=0, allowed=of_all // 2)
    path = tmp_path / "fit.safetensors"
    with pytest.raises(Killed):
        forest(path).fit(X, y)
    before = trained["stumps"]
    trained.update(stumps=0, allowed=np.inf)
    went_on = forest(path).fit(X, y)
    assert bitvec.files.identical(went_on.forest_, straight.forest_)
    assert trained["stumps"] == of_all - before
    assert path.with_name(path.name + ".2.growth").exists()
    trained.update(stumps=0)
    more = forest(path, n_estimators=4).fit(X, y)
    assert 0 < trained["stumps"] < of_all
    assert bitvec.files.identical(more.forest_, forest(n_estimators=4).fit(X, y).forest_)
    with pytest.raises(InputError, match="must be a path, got 5"):
        forest(5).fit(X, y)


def test_a_deeper_tree_goes_on_from_a_shallow_one(tmp_path, writes_always, trained):
    X, y = load_digits(n_class=5, return_X_y=True)
    path = tmp_path / "fit.safetensors"
    model("linear", path, max_depth=2).fit(X, y)
    trained.update(stumps=0)
    deep = model("linear", path).fit(X, y)
    went_on = trained["stumps"]
    assert same(deep, model("linear").fit(X, y), X)
    assert trained["stumps"] == 2 * went_on + 3


@pytest.mark.parametrize("change", [{"steps": 21}, {"gamma": (1.0, 9.0)}, {"random_state": 4}])
def test_the_file_of_another_growth_is_refused(change, tmp_path, writes_always):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "fit.safetensors"
    model("linear", path).fit(X, y)
    with pytest.raises(InputError, match=r"fit.safetensors.growth must be the checkpoint of this"):
        model("linear", path, **change).fit(X, y)
    with pytest.raises(InputError, match="must be the checkpoint of this"):
        model("linear", path).fit(X + 1, y)


def test_a_damaged_file_is_refused(tmp_path, writes_always):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "fit.safetensors"
    model("linear", path).fit(X, y)
    kept = tmp_path / "fit.safetensors.growth"
    kept.write_bytes(kept.read_bytes()[:200])
    with pytest.raises(FileFormatError, match="remove it to start anew"):
        model("linear", path).fit(X, y)


def test_refinement_and_growth_go_on_together(tmp_path, writes_always):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "fit.safetensors"
    first = model("linear", path, refine=30).fit(X, y)
    assert path.exists()
    assert same(model("linear", path, refine=30).fit(X, y), first, X)
