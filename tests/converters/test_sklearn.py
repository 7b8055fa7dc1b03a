"""Laws of the scikit-learn conversion: the library itself answers, bit for bit."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import sys
import time
import tracemalloc

import numpy as np
import pytest
import sklearn.datasets as data
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from bitvec.converters.sklearn.nodes import round_down
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.errors import InputError, InvalidForestError, MissingLibraryError, UnsupportedModelError

TREE_CLASSIFIERS = (DecisionTreeClassifier, ExtraTreeClassifier)
TREE_REGRESSORS = (DecisionTreeRegressor, ExtraTreeRegressor)
FOREST_CLASSIFIERS = (RandomForestClassifier, ExtraTreesClassifier)
FOREST_REGRESSORS = (RandomForestRegressor, ExtraTreesRegressor)
EVERY = (*TREE_CLASSIFIERS, *TREE_REGRESSORS, *FOREST_CLASSIFIERS, *FOREST_REGRESSORS)
CLASSIFICATION = {
    name: getattr(data, f"load_{name}")(return_X_y=True)
    for name in ("iris", "digits", "breast_cancer")
}
DIABETES = data.load_diabetes(return_X_y=True)


def new(kind: type, **options: object) -> object:
    forest = kind in (*FOREST_CLASSIFIERS, *FOREST_REGRESSORS)
    return kind(**{"random_state": 0, **({"n_estimators": 7} if forest else {}), **options})


def rows_where_trees_decide(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Rows of X, and copies with one value at a threshold, an ulp beside it, or special."""
    X = np.asarray(X, np.float32)[:100]
    rng = np.random.default_rng(0)
    nodes = rng.permutation(forest.n_nodes)[:60]
    inf = np.float32(np.inf)
    parts = [X]
    for node in nodes:
        b = forest.tests.b[node]
        values = [b, np.nextafter(b, inf), np.nextafter(b, -inf), np.nan, 0.0, -0.0, 1e-45, -1e-45]
        block = np.repeat(X[rng.integers(len(X), size=1)], len(values), axis=0)
        block[:, forest.tests.feature[node]] = values
        parts.append(block)
    parts.append(np.where(rng.random(X.shape) < 0.3, np.float32(np.nan), X))
    return np.concatenate(parts)


def assert_equal_to_source(model: object, X: np.ndarray) -> Forest:
    forest, source = convert(model), oracle_of(model)
    rows = rows_where_trees_decide(forest, X)
    infinite = rows.copy()
    infinite[::2, 0], infinite[1::3, -1] = np.inf, -np.inf
    for Z in (rows, infinite):
        exits = reference.exit_leaf_traversal(forest, Z)
        own = forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
        np.testing.assert_array_equal(own, source.leaf_ids(Z))
    # A split of missing against present values has an infinite threshold.
    finite = rows[~np.isinf(rows).any(axis=1)]
    if not source.accepts_missing:
        finite = finite[~np.isnan(finite).any(axis=1)]
    raw = reference.accumulate(forest, finite, reference.exit_leaf_traversal(forest, finite))
    want = source.raw(finite)
    assert raw.dtype == want.dtype == np.float64
    np.testing.assert_array_equal(raw, want)
    # Labels and values, through the library's own predict.
    np.testing.assert_array_equal(
        transforms.predictions(forest.output, raw), np.squeeze(one_job(model).predict(finite))
    )
    return forest


def one_job(model: object) -> object:
    model = copy.copy(model)
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    vars(model).pop("feature_names_in_", None)
    return model


@pytest.mark.parametrize("name", CLASSIFICATION)
@pytest.mark.parametrize("kind", [*TREE_CLASSIFIERS, *FOREST_CLASSIFIERS])
def test_a_converted_classifier_equals_predict_proba_and_apply(kind: type, name: str) -> None:
    X, y = CLASSIFICATION[name]
    assert_equal_to_source(new(kind).fit(X, y), X)


@pytest.mark.parametrize("kind", [*TREE_REGRESSORS, *FOREST_REGRESSORS])
def test_a_converted_regressor_equals_predict_and_apply(kind: type) -> None:
    assert_equal_to_source(new(kind).fit(*DIABETES), DIABETES[0])


@pytest.mark.filterwarnings("ignore:.*friedman_mse:FutureWarning")
@pytest.mark.parametrize("criterion", ["friedman_mse", "absolute_error", "poisson"])
def test_every_regression_criterion_is_converted(criterion: str) -> None:
    X, y = DIABETES
    model = DecisionTreeRegressor(criterion=criterion, max_depth=5, random_state=0)
    assert_equal_to_source(model.fit(X, y), X)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier])
def test_targets_with_different_numbers_of_classes_become_output_groups(kind: type) -> None:
    X, y = CLASSIFICATION["digits"]
    Y = np.stack([y, y % 2, y % 3], axis=1)
    forest = assert_equal_to_source(new(kind, max_depth=6).fit(X, Y), X)
    assert forest.output.groups == (10, 2, 3)


@pytest.mark.parametrize("kind", [ExtraTreeRegressor, RandomForestRegressor])
def test_several_regression_targets_become_outputs(kind: type) -> None:
    X, y = DIABETES
    forest = assert_equal_to_source(new(kind).fit(X, np.stack([y, -y, X[:, 0]], axis=1)), X)
    assert forest.n_outputs == 3


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier])
def test_missing_values_go_the_way_each_node_learned(kind: type) -> None:
    X, y = CLASSIFICATION["iris"]
    rng = np.random.default_rng(1)
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    forest = assert_equal_to_source(new(kind).fit(X, y), X)
    assert 0 < np.count_nonzero(forest.tests.missing_right) < forest.n_nodes


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, -7, 11]),
        np.array([0.5, 1.5, 2.5]).round(),
        np.array(["setosa", "x", "virginica"]),
        np.array(["setosa", "x", "virginica"], dtype=object),
        np.array([False, True, True]),
    ],
    ids=["int", "float", "str", "object", "bool"],
)
def test_labels_of_any_dtype_come_back(labels: np.ndarray) -> None:
    X, y = CLASSIFICATION["iris"]
    for kind in (DecisionTreeClassifier, RandomForestClassifier):
        assert_equal_to_source(new(kind).fit(X, labels[y]), X)


def test_string_labels_of_several_targets_come_back() -> None:
    X, y = CLASSIFICATION["iris"]
    Y = np.stack([np.array(["a", "b", "c"])[y], np.array(["no", "yes", "no"])[y]], axis=1)
    assert_equal_to_source(RandomForestClassifier(5, random_state=0).fit(X, Y), X)


def test_sample_weights_and_balanced_classes_are_converted() -> None:
    X, y = CLASSIFICATION["breast_cancer"]
    weight = np.random.default_rng(0).random(len(y)) * (y + 0.1)
    for model in (
        DecisionTreeClassifier(max_depth=4, random_state=0),
        RandomForestClassifier(5, class_weight="balanced_subsample", random_state=0),
    ):
        forest = assert_equal_to_source(model.fit(X, y, sample_weight=weight), X)
    tree = convert(DecisionTreeClassifier(max_depth=4).fit(X, y, sample_weight=weight))
    # Weights of both children sum to the parent's up to the rounding of a cumulative sum.
    assert tree.source.leaf_cover.sum() == pytest.approx(tree.source.node_cover[0], rel=1e-12)
    assert np.all(forest.source.gain > -1e-9)


def test_monotonic_constraints_are_converted() -> None:
    X, y = DIABETES
    constraint = [1, -1, *([0] * 8)]
    for kind in (DecisionTreeRegressor, ExtraTreesRegressor):
        assert_equal_to_source(new(kind, monotonic_cst=constraint).fit(X, y), X)


def test_a_forest_with_many_jobs_has_the_order_of_one() -> None:
    X, y = CLASSIFICATION["digits"]
    model = RandomForestClassifier(12, n_jobs=2, max_depth=5, random_state=0).fit(X, y)
    assert_equal_to_source(model, X)
    assert model.n_jobs == 2


def test_one_class_and_single_leaves_are_converted() -> None:
    X, y = CLASSIFICATION["iris"]
    for kind in (DecisionTreeClassifier, RandomForestClassifier):
        forest = assert_equal_to_source(new(kind).fit(X, np.full(len(X), "only")), X)
        assert forest.n_nodes == 0
    assert_equal_to_source(RandomForestRegressor(3).fit(X, np.ones(len(X))), X)
    assert_equal_to_source(RandomForestClassifier(3, max_leaf_nodes=2).fit(X, y), X)


def test_pruned_trees_are_converted() -> None:
    X, y = CLASSIFICATION["breast_cancer"]
    assert_equal_to_source(DecisionTreeClassifier(ccp_alpha=0.01, random_state=0).fit(X, y), X)


def test_the_reference_equation_gives_the_same_leaves() -> None:
    X, y = CLASSIFICATION["iris"]
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    forest = convert(model)
    raw = reference.raw(forest, X.astype(np.float32))
    np.testing.assert_array_equal(raw, model.predict_proba(X))


def test_feature_names_and_parameters_are_kept() -> None:
    pd = pytest.importorskip("pandas")
    X, y = CLASSIFICATION["iris"]
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
    X, y = CLASSIFICATION["iris"]
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
        (GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1]}, cv=2), "best_estimator_"),
        (make_pipeline(StandardScaler(), DecisionTreeClassifier()), r"model\[-1\].*DecisionTree"),
        (TransformedTargetRegressor(DecisionTreeRegressor()), r"`model\.regressor_`"),
        (SVC(), "must be one of ExtraTreeClassifier"),
        (BaggingClassifier(SVC(), 2), "must be one of ExtraTreeClassifier"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_estimators_are_refused_with_what_to_do(model: object, words: str) -> None:
    X, y = CLASSIFICATION["iris"]
    with pytest.raises(UnsupportedModelError, match=words):
        convert(model.fit(X, y))
    with pytest.raises(UnsupportedModelError, match=words):
        oracle_of(model)


def test_a_wrapper_of_many_targets_is_refused_with_what_to_do() -> None:
    X, y = CLASSIFICATION["iris"]
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
    X, y = CLASSIFICATION["iris"]
    assert_equal_to_source(Renamed(3, random_state=0).fit(X, y), X)
    with pytest.raises(UnsupportedModelError, match="must inherit `predict_proba`"):
        convert(Cautious().fit(X, y))
    forest = RandomForestClassifier(2).fit(X, y)
    forest.estimators_[1] = Cautious().fit(X, y)
    with pytest.raises(UnsupportedModelError, match="must inherit `predict_proba`"):
        convert(forest)


def test_rows_of_another_width_are_refused_before_the_library_reads_them() -> None:
    X, y = CLASSIFICATION["iris"]
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
    X, y = CLASSIFICATION["iris"]
    model = new(RandomForestClassifier if forest else DecisionTreeClassifier).fit(X, y)
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
    X, y = CLASSIFICATION["iris"]
    model = DecisionTreeClassifier().fit(X, y)
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError)) as caught:
        convert(model)
    assert str(caught.value).count(". ") == 0


def test_a_tree_of_no_nodes_is_refused() -> None:
    X, y = CLASSIFICATION["iris"]
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
