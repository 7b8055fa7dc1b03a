"""The names of the package: lazy, documented, and clear about what they are given."""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest

import bitvec

pytestmark = pytest.mark.usefixtures("without_shape_checks")

NAMES = sorted(bitvec.__all__)


def test_the_public_names_are_these():
    assert NAMES == [
        "BatchPredictor",
        "BitvecError",
        "Certificate",
        "DecisionMachine",
        "Forest",
        "as_estimator",
        "calibrate",
        "certify",
        "compile",
        "compress",
        "convert",
        "diff",
        "explain",
        "export",
        "from_torch",
        "load",
        "prune",
        "retrain",
        "save",
        "to_jax",
        "to_torch",
        "update",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_found_and_documented(name):
    pytest.importorskip("torch")
    value = getattr(bitvec, name)
    assert inspect.getdoc(value)
    assert name in dir(bitvec)


@pytest.mark.parametrize("name", bitvec.learners.__all__)
def test_every_learner_is_found_and_documented(name):
    pytest.importorskip("torch")
    assert inspect.getdoc(getattr(bitvec.learners, name))
    assert name in dir(bitvec.learners)


def test_no_module_of_the_package_shares_the_name_of_a_public_function():
    # Importing it would put the module in the function's place.
    modules = {module.name for module in pkgutil.iter_modules(bitvec.__path__)}
    assert not modules & set(NAMES)
    assert not {m.name for m in pkgutil.iter_modules(bitvec.learners.__path__)} & set(
        bitvec.learners.__all__
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda thing: bitvec.compile(thing),
        lambda thing: bitvec.certify(thing, thing),
        lambda thing: bitvec.save(thing, "never-written"),
        lambda thing: bitvec.explain(thing),
        lambda thing: bitvec.export(thing, "never-written"),
        lambda thing: bitvec.to_torch(thing),
        lambda thing: bitvec.to_jax(thing),
        lambda thing: bitvec.retrain(thing, np.zeros((9, 2)), np.zeros(9)),
    ],
    ids=["compile", "certify", "save", "explain", "export", "to_torch", "to_jax", "retrain"],
)
@pytest.mark.parametrize("thing", [None, object(), 3])
def test_what_is_no_forest_is_refused_in_one_sentence(call, thing, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"a bitvec Forest must be given, got .*convert first"):
        call(thing)
    assert not list(tmp_path.iterdir())


def test_only_a_soft_forest_is_hardened():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="a SoftForest must be given, got torch"):
        bitvec.from_torch(torch.nn.Linear(2, 2))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'converts'"):
        bitvec.converts  # noqa: B018


def test_slices_take_trees_and_single_indices_one():
    tree = bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    assert len(tree[:1]) == 1
    assert len(tree[1:]) == 0
    assert bitvec.files.identical(tree[:1], tree[0])
    with pytest.raises(IndexError, match="below 1"):
        tree[1]


@pytest.fixture(scope="module")
def results():
    """Return a result of each type that a public function returns, of one tree of 4 nodes."""
    for library in ("torch", "sklearn"):
        pytest.importorskip(library)
    from sklearn.datasets import load_iris
    from sklearn.tree import DecisionTreeClassifier

    from bitvec.core.machine import from_forest
    from bitvec.learners.tao.fit import fit_tao
    from bitvec.runtime.train.retrain.history import History
    from bitvec.runtime.train.retrain.result import RetrainResult

    X, y = load_iris(return_X_y=True)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    changed = replace(forest, output=replace(forest.output, base_score=np.array([0.0, 0.0, 9.0])))
    passed, failed = (bitvec.certify(f, model, progress=False) for f in (forest, changed))
    retrained = RetrainResult(
        forest, True, "accuracy", 0.5, 0.75, ("S", "v"), History([], "accuracy")
    )
    return {
        "forest": forest,
        "machine": from_forest(forest),
        "predictor": bitvec.compile(forest),
        "predictor of a machine": bitvec.compile(from_forest(forest)),
        "estimator": bitvec.as_estimator(model),
        "certificate": replace(passed, oracle_version="1.0"),
        "failed certificate": replace(failed, oracle_version="1.0"),
        "diff": bitvec.diff(forest, changed, X),
        "diff of equals": bitvec.diff(forest, forest),
        "diff of others": bitvec.diff(forest, forest.take([0, 0])),
        "prune": bitvec.prune(forest, X),
        "retrain": retrained,
        "retrain in vain": replace(retrained, improved=False, score=0.5),
        "refine": bitvec.learners.tao_refine(forest, X, y),
        "refine in vain": bitvec.learners.tao_refine(forest, X, y, max_iter=0),
        "tao": fit_tao(X, y, depth=1, n_jobs=1),
        "soft": bitvec.to_torch(forest, "sigmoid"),
    }


FOREST = "Forest(1 tree, 4 nodes, 5 leaves, 4 features -> 3 outputs, float32, from sklearn)"
MACHINE = "DecisionMachine(1 block, 4 tests, 5 leaves, 4 features -> 3 outputs, B in float64)"
COMPARED = "forest against sklearn 1.0, leaf ids, leaf values, raw scores, transformed scores"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forest", FOREST),
        ("machine", MACHINE),
        ("predictor", f"Predictor({FOREST}, engine='numba')"),
        ("predictor of a machine", f"MachinePredictor({MACHINE})"),
        ("estimator", f"ConvertedClassifier(forest={FOREST})"),
        ("certificate", f"Certificate(PASSED, proved: {COMPARED} and labels)"),
        ("failed certificate", f"Certificate(FAILED, two-sided: {COMPARED} and labels)"),
        (
            "diff",
            "Diff(trees: 1, nodes: 4, leaves: 5; moved: base_score 1 of 3; "
            "predictions changed: 98 of 150 rows)",
        ),
        ("diff of equals", "Diff(trees: 1, nodes: 4, leaves: 5; nothing moved)"),
        (
            "diff of others",
            "Diff(trees: 1 -> 2, nodes: 4 -> 8, leaves: 5 -> 10; no node can be paired)",
        ),
        (
            "prune",
            "PruneResult(0 of 4 nodes removed: 0 that rows pass one way only, 0 that every row "
            "passes one way only, 0 over equal leaves; raw scores equal on the rows given, "
            "bit for bit)",
        ),
        ("retrain", "RetrainResult(accuracy 0.5 -> 0.75 by S, v in 0 evaluations)"),
        (
            "retrain in vain",
            "RetrainResult(forest unchanged: accuracy 0.5 not raised by S, v in 0 evaluations)",
        ),
        ("refine", "RefineResult(zero_one loss 4 -> 3 in 2 rounds, on the training rows)"),
        (
            "refine in vain",
            "RefineResult(forest unchanged: zero_one loss 4 not lowered in 0 rounds, on the "
            "training rows)",
        ),
        ("tao", "TAOResult(1 nodes, 1 weights, objective 50 -> 50 in 2 passes)"),
        (
            "soft",
            f"SoftForest(\n  {FOREST}, Relaxation(gate='sigmoid', leaf_map='product', score=None), "
            "gamma=1, trainable: S, b, v\n  (rows): DenseRows()\n  (units): ColumnUnits()\n)",
        ),
    ],
)
def test_a_result_labels_its_numbers_and_does_not_contradict_itself(results, name, said):
    assert repr(results[name]) == said


def test_dir_lists_what_users_may_use():
    listed = {name for name in dir(bitvec) if not name.startswith("__")}
    assert set(NAMES) <= listed
    assert all(inspect.ismodule(getattr(bitvec, name)) for name in listed - set(NAMES))
    assert "__version__" in dir(bitvec)
