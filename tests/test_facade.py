"""The names of the package: lazy, documented, and clear about what they are given."""

from __future__ import annotations

import inspect

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
        "CPTClassifier",
        "CPTRegressor",
        "Certificate",
        "DecisionMachine",
        "E2EDFClassifier",
        "E2EDFRegressor",
        "E2EDTClassifier",
        "E2EDTRegressor",
        "FileFormatError",
        "Forest",
        "InputError",
        "InvalidForestError",
        "KDDTClassifier",
        "KDDTExtraTreesClassifier",
        "KDDTExtraTreesRegressor",
        "KDDTRandomForestClassifier",
        "KDDTRandomForestRegressor",
        "KDDTRegressor",
        "MissingLibraryError",
        "RetrainedClassifier",
        "RetrainedRegressor",
        "TAOClassifier",
        "TAORegressor",
        "UnsupportedModelError",
        "certify",
        "compile",
        "convert",
        "diff",
        "export",
        "export_page",
        "from_cpt",
        "from_e2edf",
        "from_e2edt",
        "from_kddt",
        "from_kddt_forest",
        "from_matrices",
        "from_tao",
        "from_torch",
        "identical",
        "load",
        "prune",
        "retrain",
        "save",
        "tao_refine",
        "to_c",
        "to_sklearn",
        "to_torch",
        "to_treelite",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_found_and_documented(name):
    pytest.importorskip("torch")
    value = getattr(bitvec, name)
    assert inspect.getdoc(value)
    assert name in dir(bitvec)


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
    tree = bitvec.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    assert len(tree[:1]) == 1
    assert len(tree[1:]) == 0
    assert bitvec.identical(tree[:1], tree[0])
    with pytest.raises(IndexError, match="below 1"):
        tree[1]


def test_dir_lists_what_users_may_use():
    listed = {name for name in dir(bitvec) if not name.startswith("__")}
    assert set(NAMES) <= listed
    assert all(inspect.ismodule(getattr(bitvec, name)) for name in listed - set(NAMES))
    assert "__version__" in dir(bitvec)
