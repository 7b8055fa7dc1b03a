"""The names of the package: lazy, documented, and clear about what they are given."""

from __future__ import annotations

import inspect
import pkgutil

import jaxtyping
import numpy as np
import pytest

import bitvec

NAMES = sorted(bitvec.__all__)


@pytest.fixture(autouse=True, scope="module")
def _without_annotation_checks():
    """Let wrong objects meet the checks that users have, not those of the test run."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def test_the_public_names_are_these():
    assert NAMES == [
        "BitvecError",
        "Certificate",
        "DecisionMachine",
        "Forest",
        "as_estimator",
        "certify",
        "compile",
        "convert",
        "diff",
        "export",
        "from_torch",
        "load",
        "prune",
        "retrain",
        "save",
        "to_torch",
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
        lambda thing: bitvec.export(thing, "never-written"),
        lambda thing: bitvec.to_torch(thing),
        lambda thing: bitvec.retrain(thing, np.zeros((9, 2)), np.zeros(9)),
    ],
    ids=["compile", "certify", "save", "export", "to_torch", "retrain"],
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


def test_dir_lists_what_users_may_use():
    listed = {name for name in dir(bitvec) if not name.startswith("__")}
    assert set(NAMES) <= listed
    assert all(inspect.ismodule(getattr(bitvec, name)) for name in listed - set(NAMES))
    assert "__version__" in dir(bitvec)
