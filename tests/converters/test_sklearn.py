"""The catalogue of scikit-learn: the library itself answers, bit for bit; and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from hypothesis import given
from hypothesis import strategies as st
from proof_laws import some_in_full
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.svm import SVC
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn_laws import assert_equal_to_source, certified
from threadpoolctl import threadpool_limits

from bitvec.converters.sklearn.nodes import round_down
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.core import reference
from bitvec.errors import InputError, InvalidForestError, MissingLibraryError, UnsupportedModelError
from tests.models.samples import small
from tests.models.sklearn import MODELS, RELEASE, sample, trained

EVERY = (
    *(DecisionTreeClassifier, ExtraTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor),
    *(RandomForestClassifier, ExtraTreesClassifier, RandomForestRegressor, ExtraTreesRegressor),
)
IRIS = data.load_iris(return_X_y=True)
DIGITS = data.load_digits(return_X_y=True)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Answer in one thread: on shared cores the threads of small models only wait."""
    with threadpool_limits(1, user_api="openmp"):
        yield


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=4))
def test_a_converted_model_answers_as_the_library(name: str) -> None:
    about, model = MODELS[name], trained(name)
    rows = sample(about)
    of_texts = about.columns == "texts"
    forest = assert_equal_to_source(model, rows.X, rows.categorical, of_texts=of_texts)
    certified(model, rows.X)
    assert forest.dtype == (np.float64 if about.kind.startswith("Hist") else np.float32)
    if about.target == "targets":
        assert forest.n_outputs == 3
    if about.target == "one class":
        assert forest.n_nodes == 0


TEN_CLASSES = (
    *(DecisionTreeClassifier(random_state=0), ExtraTreesClassifier(7, random_state=0)),
    GradientBoostingClassifier(n_estimators=2, subsample=0.5, random_state=0),
    HistGradientBoostingClassifier(max_iter=2),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=10, random_state=0),
)


@pytest.mark.parametrize("model", TEN_CLASSES, ids=lambda model: type(model).__name__)
def test_ten_classes_are_told_as_the_library_tells_them(model: Any) -> None:
    X, y = DIGITS
    if RELEASE == (1, 5) and isinstance(model, AdaBoostClassifier):
        model.set_params(algorithm="SAMME")
    assert_equal_to_source(model.fit(X, np.array([f"digit {k}" for k in range(10)])[y]), X)
    certified(model, X)


@pytest.mark.parametrize(
    "name", ["RandomForestClassifier", "BaggingClassifier, max_features=0.5, text labels"]
)
def test_many_jobs_have_the_order_of_one(name: str) -> None:
    model, X = copy.copy(trained(name)), sample(MODELS[name]).X
    model.n_jobs = 2
    assert_equal_to_source(model, X)
    certified(model, X)
    assert model.n_jobs == 2


@pytest.mark.filterwarnings("ignore:.*friedman_mse:FutureWarning")
def test_the_former_name_of_a_criterion_is_converted() -> None:
    X, y = small().X, small().y
    model = DecisionTreeRegressor(criterion="friedman_mse", max_depth=5, random_state=0)
    assert_equal_to_source(model.fit(X, y), X)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier])
def test_targets_with_different_numbers_of_classes_become_output_groups(kind: type) -> None:
    X, y = DIGITS
    Y = np.stack([y, y % 2, y % 3], axis=1)
    forest = assert_equal_to_source(kind(max_depth=6, random_state=0).fit(X, Y), X)
    assert forest.output.groups == (10, 2, 3)


@pytest.mark.parametrize("name", ["DecisionTreeClassifier", "RandomForestClassifier"])
def test_missing_values_go_the_way_each_node_learned(name: str) -> None:
    forest = convert(trained(name))
    assert 0 < np.count_nonzero(forest.tests.missing_right) < forest.n_nodes


def test_covers_are_sums_of_weights_and_gains_are_not_negative() -> None:
    name = "class_weight=balanced, weighted"
    tree = convert(trained(f"DecisionTreeClassifier, {name}"))
    # Weights of both children sum to the parent's up to the rounding of a cumulative sum.
    assert tree.source.leaf_cover.sum() == pytest.approx(tree.source.node_cover[0], rel=1e-12)
    assert np.all(convert(trained(f"RandomForestClassifier, {name}")).source.gain > -1e-9)


def test_the_reference_equation_gives_the_same_leaves() -> None:
    X, y = IRIS
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    forest = convert(model)
    raw = reference.raw(forest, X.astype(np.float32))
    np.testing.assert_array_equal(raw, model.predict_proba(X))


def test_feature_names_and_parameters_are_kept() -> None:
    pd = pytest.importorskip("pandas")
    X, y = IRIS
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(frame, y)
    forest = assert_equal_to_source(model, X)
    assert forest.inputs.feature_names == ("a", "b", "c", "d")
    assert forest.source.metadata["max_depth"] == 2
    assert forest.source.model == "DecisionTreeClassifier"
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]


SPECIAL = [0.0, -0.0, 1e-300, -1e-300, 1e-46, -1e-46, 1e300, -1e300, np.inf, -np.inf, 0.1, -0.1]
SPECIAL += [float(np.finfo(np.float32).max), -float(np.finfo(np.float32).max), 1e-45, -1e-45]


@given(
    threshold=st.one_of(
        st.floats(allow_nan=False),
        st.sampled_from(SPECIAL),
        # Within a float64 ulp or two of a float32, where rounding turns.
        st.floats(width=32, allow_nan=False).map(lambda t: float(np.nextafter(t, np.inf))),
        st.floats(width=32, allow_nan=False).map(lambda t: float(np.nextafter(t, -np.inf))),
    ),
    x=st.one_of(st.floats(width=32, allow_nan=False), st.sampled_from(SPECIAL)),
)
def test_no_float32_lies_between_a_threshold_and_its_rounding(threshold: float, x: float) -> None:
    rounded = round_down(np.array([threshold]))[0]
    near = np.float32(rounded)
    with np.errstate(over="ignore"):
        candidates = [
            np.float32(x),
            near,
            *(np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)),
        ]
    for value in candidates:
        assert (float(value) <= threshold) == (value <= rounded)


@given(thresholds=st.lists(st.sampled_from(SPECIAL), min_size=8, max_size=8))
def test_extreme_thresholds_route_as_in_the_library(thresholds: list[float]) -> None:
    X, y = IRIS
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    _edit(
        model,
        lambda nodes: nodes["threshold"].__setitem__(
            slice(None), np.resize(thresholds, len(nodes))
        ),
    )
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL, np.float64).astype(np.float32)
    rows = np.random.default_rng(0).choice([*values, np.float32(np.nan)], size=(64, 4))
    forest = convert(model)
    exits = reference.exit_leaf_traversal(forest, rows.astype(np.float32))
    np.testing.assert_array_equal(
        forest.source.leaf_id[exits], oracle_of(model).leaf_ids(rows.astype(np.float32))
    )


# What is refused.


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (VotingClassifier([("a", DecisionTreeClassifier())]), r"`model\.estimators_\[i\]`"),
        (StackingClassifier([("a", DecisionTreeClassifier())], cv=2), "answers of others"),
        (CalibratedClassifierCV(DecisionTreeClassifier(), cv=2), "calibrated_classifiers_"),
        (RandomTreesEmbedding(2), "leaf indicators"),
        (OneVsRestClassifier(DecisionTreeClassifier()), "one model on all classes"),
        (TransformedTargetRegressor(DecisionTreeRegressor()), r"`model\.regressor_`"),
        (SVC(), "must be one of ExtraTreeClassifier"),
        (BaggingClassifier(SVC(), 2), "must be one of ExtraTreeClassifier"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_estimators_are_refused_with_what_to_do(model: object, words: str) -> None:
    X, y = IRIS
    with pytest.raises(UnsupportedModelError, match=words):
        convert(model.fit(X, y))
    with pytest.raises(UnsupportedModelError, match=words):
        oracle_of(model)


def test_a_wrapper_of_many_targets_is_refused_with_what_to_do() -> None:
    X, y = IRIS
    for model in (
        MultiOutputClassifier(DecisionTreeClassifier()),
        MultiOutputRegressor(DecisionTreeRegressor()),
    ):
        with pytest.raises(UnsupportedModelError, match="one forest on all targets"):
            convert(model.fit(X, np.stack([y, y > 0], axis=1)))


@pytest.mark.parametrize("kind", EVERY)
def test_an_unfitted_model_is_refused(kind: type) -> None:
    with pytest.raises(UnsupportedModelError, match="call fit first"):
        convert(kind())


@pytest.mark.parametrize("thing", [None, 3, b"model", RandomForestClassifier, {"tree_": 1}])
def test_what_is_no_model_is_refused(thing: object) -> None:
    with pytest.raises(UnsupportedModelError, match="must be one of"):
        convert(thing)


class Renamed(RandomForestClassifier):
    pass


class Cautious(DecisionTreeClassifier):
    def predict_proba(self, X: np.ndarray, check_input: bool = True) -> np.ndarray:
        return super().predict_proba(X, check_input) * 0.5


def test_a_subclass_is_converted_only_if_it_answers_as_its_base() -> None:
    X, y = IRIS
    assert_equal_to_source(Renamed(3, random_state=0).fit(X, y), X)
    with pytest.raises(UnsupportedModelError, match="must inherit `predict_proba`"):
        convert(Cautious().fit(X, y))
    forest = RandomForestClassifier(2).fit(X, y)
    forest.estimators_[1] = Cautious().fit(X, y)
    with pytest.raises(UnsupportedModelError, match="must inherit `predict_proba`"):
        convert(forest)


def test_rows_of_another_width_are_refused_before_the_library_reads_them() -> None:
    X, y = IRIS
    source = oracle_of(DecisionTreeClassifier().fit(X, y))
    for answer in (source.raw, source.leaf_ids):
        with pytest.raises(InputError, match="must have 4 features"):
            answer(np.zeros((5, 3), np.float32))


def _edit(model: object, change: object) -> None:
    """Change the node records of a fitted tree in place."""
    tree = model.tree_
    state = tree.__getstate__()
    state["nodes"], state["values"] = state["nodes"].copy(), state["values"].copy()
    change(state["nodes"])
    tree.__setstate__(state)


DAMAGE = {
    "child beyond the tree": lambda nodes: nodes["left_child"].__setitem__(0, 10**6),
    "child far below zero": lambda nodes: nodes["right_child"].__setitem__(0, -(10**12)),
    "child of a leaf": lambda nodes: nodes["right_child"].__setitem__(-1, 0),
    "half a leaf": lambda nodes: nodes["left_child"].__setitem__(0, -1),
    "cycle": lambda nodes: nodes["left_child"].__setitem__(0, 0),
    "shared child": lambda nodes: nodes["left_child"].__setitem__(0, nodes["right_child"][0]),
    "feature beyond X": lambda nodes: nodes["feature"].__setitem__(0, 4),
    "feature below zero": lambda nodes: nodes["feature"].__setitem__(0, -2),
    "threshold NaN": lambda nodes: nodes["threshold"].__setitem__(0, np.nan),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("forest", [False, True], ids=["tree", "forest"])
def test_damaged_nodes_are_refused_before_anything_follows_them(
    damage: object, forest: bool
) -> None:
    X, y = IRIS
    model = (RandomForestClassifier(7) if forest else DecisionTreeClassifier()).fit(X, y)
    _edit(model.estimators_[3] if forest else model, damage)
    for reading in (convert, oracle_of):
        with pytest.raises(InvalidForestError):
            reading(model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features_in_", 3),
        ("n_features_in_", 10**9),
        ("n_features_in_", "4"),
        ("n_outputs_", 2),
        ("n_outputs_", None),
        ("classes_", np.arange(40)),
        ("classes_", None),
        ("classes_", np.array([1, "a", None], dtype=object)),
        ("classes_", np.zeros((3, 2))),
        ("tree_", None),
        ("tree_", {"node_count": 3}),
        ("feature_names_in_", np.array(["a"], dtype=object)),
    ],
)
def test_attributes_that_contradict_the_trees_are_refused(name: str, value: object) -> None:
    X, y = IRIS
    model = DecisionTreeClassifier().fit(X, y)
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError)) as caught:
        convert(model)
    assert str(caught.value).count(". ") == 0


def test_a_tree_of_no_nodes_is_refused() -> None:
    X, y = IRIS
    model = DecisionTreeClassifier().fit(X, y)
    state = model.tree_.__getstate__()
    model.tree_.__setstate__({**state, "node_count": 0})
    with pytest.raises(InvalidForestError, match="must hold its nodes"):
        convert(model)


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_a_large_forest_is_converted_in_time_and_memory_of_its_own_size(kind: type) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 10)), rng.integers(0, 10, 4000)
    model = kind(30, random_state=0, n_jobs=1).fit(X, y)
    began = time.perf_counter()
    forest = convert(model)
    seconds = time.perf_counter() - began
    assert forest.n_nodes > 40_000
    # 1,137,000 nodes take half a second on two shared cores; this small part has a generous bound.
    assert seconds < 2.0
    tracemalloc.start()
    try:
        forest = convert(model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * array_bytes(forest)


def array_bytes(part: object) -> int:
    """Return the bytes of the arrays of a forest, or of a part of it, each counted once."""
    buffers: dict[int, int] = {}
    parts = [part]
    for held in parts:
        for field in dataclasses.fields(held):
            value = getattr(held, field.name)
            if dataclasses.is_dataclass(value):
                parts.append(value)
            while isinstance(value, np.ndarray) and value.base is not None:
                value = value.base
            if isinstance(value, np.ndarray):
                buffers[id(value)] = value.nbytes
    return sum(buffers.values())


def test_a_missing_library_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "bitvec.converters.sklearn.oracle", raising=False)
    with pytest.raises(MissingLibraryError, match=r'pip install "bitvec-trees\[sklearn\]"'):
        importlib.import_module("bitvec.converters.sklearn.oracle")
