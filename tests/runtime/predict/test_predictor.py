"""The predictor answers with scikit-learn's verbs what the forest says, on every engine."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.ensemble import IsolationForest
from strategies import AXIS, KERNEL, forests, forests_with_rows

from bitvec.converters.sklearn.read import convert
from bitvec.core import reference, structure, transforms
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output, PostTransform
from bitvec.core.source import Source
from bitvec.errors import BitvecError, InputError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.cpu.bitvector import perfect
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.predictor import OF_RAW, compile
from bitvec.runtime.predict.threads import available_cores

ENGINES = ["numba", "reference"]


def stump(**options):
    """x0 > 0.5 ? 20 : 10, with one more column that is not read."""
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    return replace(forest, **options)


def two_trees(source=None):
    """A chain of three leaves on x0, then a single leaf, then a stump on x1."""
    B = structure.from_children(np.array([~0, ~1, ~4]), np.array([1, ~2, ~5]), np.array([0, ~3, 2]))
    return Forest(
        tests=axis_aligned([0, 0, 1], np.array([1.0, 2.0, 0.0], np.float32)),
        bitvectors=B,
        leaves=Leaves(np.arange(6, dtype=np.float64)[:, None]),
        output=Output(1, np.dtype(np.float64), base_score=np.array([100.0])),
        inputs=Inputs(2),
        source=source,
    )


ROWS = [[0.5, -1.0], [1.5, 1.0], [9.0, 0.0]]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_regressors_verbs(engine):
    predictor = compile(two_trees(), engine=engine)
    raw = [[107.0], [109.0], [109.0]]
    assert predictor.raw(ROWS).tolist() == raw
    assert predictor.scores(ROWS).tolist() == raw
    assert predictor.decision_function(ROWS).tolist() == [107.0, 109.0, 109.0]
    assert predictor.predict(ROWS).tolist() == [107.0, 109.0, 109.0]
    assert predictor.exit_leaves(ROWS).tolist() == [[0, 0, 0], [1, 0, 1], [2, 0, 0]]
    assert predictor.apply(ROWS).tolist() == [[0, 0, 0], [1, 0, 1], [2, 0, 0]]
    assert predictor.per_tree(ROWS)[:, :, 0].tolist() == [[0, 3, 4], [1, 3, 5], [2, 3, 4]]
    passed, first = predictor.decision_path(ROWS)
    assert first.tolist() == [0, 5, 6, 9]
    assert passed.toarray().tolist() == [
        [1, 0, 1, 0, 0, 1, 1, 1, 0],
        [1, 1, 0, 1, 0, 1, 1, 0, 1],
        [1, 1, 0, 0, 1, 1, 1, 1, 0],
    ]


def test_apply_gives_the_sources_own_leaf_ids():
    ids = np.array([7, 3, 4, 0, 2, 1])
    predictor = compile(two_trees(Source("sklearn", "1.9", leaf_id=ids)))
    applied = predictor.apply(ROWS)
    assert applied.dtype == np.int64
    assert applied.tolist() == [[7, 0, 2], [3, 0, 1], [4, 0, 2]]
    assert predictor.exit_leaves(ROWS).tolist() == [[0, 0, 0], [1, 0, 1], [2, 0, 0]]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_output_and_two_labels_make_a_binary_classifier(engine):
    output = Output(
        1,
        np.dtype(np.float64),
        base_score=np.array([-15.0]),
        post_transform=PostTransform.SIGMOID,
        classes=(np.array(["no", "yes"]),),
    )
    predictor = compile(stump(output=output), engine=engine)
    X = [[0.0, 0.0], [1.0, 0.0]]
    low, high = 1 / (np.exp(5.0) + 1), 1 / (np.exp(-5.0) + 1)
    assert predictor.predict(X).tolist() == ["no", "yes"]
    assert predictor.predict_proba(X).tolist() == [[1 - low, low], [1 - high, high]]
    assert predictor.decision_function(X).tolist() == [-5.0, 5.0]


def test_several_targets_give_a_list_of_probabilities_and_a_column_of_labels_each():
    output = Output(
        5,
        np.dtype(np.float64),
        classes=(np.array([4, 5]), np.array([7, 8, 9])),
        groups=(2, 3),
    )
    v = np.array([[1.0, 0, 0, 0.25, 0.75], [0.25, 0.75, 1, 0, 0]])
    predictor = compile(stump(leaves=Leaves(v), output=output))
    X = [[0.0, 0.0], [1.0, 0.0]]
    first, second = predictor.predict_proba(X)
    assert first.tolist() == [[1, 0], [0.25, 0.75]]
    assert second.tolist() == [[0, 0.25, 0.75], [1, 0, 0]]
    assert predictor.predict(X).tolist() == [[4, 9], [5, 7]]


def test_probabilities_of_a_regressor_are_refused_in_one_sentence():
    with pytest.raises(BitvecError, match="needs a classifier, got a regressor: use `predict`"):
        compile(stump()).predict_proba([[0.0, 0.0]])


@given(forests_with_rows(classifier=True))
def test_every_verb_follows_from_the_reference(drawn):
    forest, X = drawn
    predictor = compile(forest, engine="numba", n_jobs=1)
    exits = reference.exit_leaves(forest, X)
    with np.errstate(all="ignore"):
        raw = reference.raw(forest, X)
        assert np.array_equal(predictor.raw(X), raw, equal_nan=True)
        proba = transforms.probabilities(forest.output, raw)[0]
        assert np.array_equal(predictor.predict_proba(X), proba, equal_nan=True)
        assert np.array_equal(predictor.predict(X), transforms.predictions(forest.output, raw))
        for verb in OF_RAW:
            answer, whole = predictor.from_raw(verb, raw), getattr(predictor, verb)(X)
            assert answer.dtype == whole.dtype
            assert np.array_equal(answer, whole, equal_nan=verb != "predict")
        assert np.array_equal(predictor.exit_leaves(X), exits)
        per_tree = predictor.per_tree(X)
    leaf = exits + forest.bitvectors.leaf_ptr[:-1]
    for tree in range(forest.n_trees):
        vectors = reference.leaf_vectors(forest, X, leaf[:, tree])
        assert np.array_equal(per_tree[:, tree], vectors, equal_nan=True)


@given(forests_with_rows())
def test_decision_path_holds_the_exit_leaf_and_the_nodes_above_it(drawn):
    forest, X = drawn
    predictor = compile(forest, n_jobs=1)
    passed = predictor.decision_path(X)
    passed = (passed if forest.n_trees == 1 else passed[0]).toarray()
    B, exits = forest.bitvectors, predictor.exit_leaves(X)
    expected = []
    for tree in range(forest.n_trees):
        at = slice(*B.node_ptr[tree : tree + 2])
        exit = exits[:, tree, None]
        expected.append((exit >= B.lo[at]) & (exit < B.hi[at]))
        expected.append(exit == np.arange(B.leaf_ptr[tree + 1] - B.leaf_ptr[tree]))
    assert np.array_equal(passed, np.concatenate(expected, axis=1))


@pytest.mark.parametrize("n_trees", [None, 2, 5])
def test_decision_path_has_scikit_learns_nodes_and_shape(n_trees):
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    from bitvec.converters.sklearn.read import convert

    X, y = load_iris(return_X_y=True)
    made = DecisionTreeClassifier() if n_trees is None else RandomForestClassifier(n_trees)
    model = made.set_params(random_state=0).fit(X, y)
    forest = convert(model)
    found, expected = compile(forest).decision_path(X), model.decision_path(X)
    ptr = np.array([0, model.tree_.node_count]) if n_trees is None else expected[1]
    if n_trees is not None:
        (found, found_ptr), expected = found, expected[0]
        assert found_ptr.dtype == ptr.dtype
        assert np.array_equal(found_ptr, ptr)
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    B, source = forest.bitvectors, forest.source
    columns = np.concatenate(
        [
            first + np.concatenate([source.node_id[a:b], source.leaf_id[c:d]])
            for first, a, b, c, d in zip(
                ptr, B.node_ptr, B.node_ptr[1:], B.leaf_ptr, B.leaf_ptr[1:], strict=False
            )
        ]
    )
    assert (found != expected[:, columns]).nnz == 0


@settings(max_examples=10)
@given(forests(kinds=(AXIS, KERNEL), soft=True, linear=False, max_leaves=8))
def test_a_soft_forest_gives_each_trees_expected_vector(forest):
    X = np.linspace(-1, 1, 4 * forest.n_features, dtype=forest.dtype).reshape(4, -1)
    per_tree = compile(forest).per_tree(X)
    if forest.kernel is not None:
        for tree, vectors in enumerate(reference.soft_vectors(forest, X)):
            assert np.array_equal(per_tree[:, tree], vectors)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n_rows", [0, 1])
def test_no_rows_and_one_row(engine, n_rows):
    predictor = compile(two_trees(), engine=engine)
    X = np.zeros((n_rows, 2))
    assert predictor.raw(X).shape == (n_rows, 1)
    assert predictor.predict(X).shape == (n_rows,)
    assert predictor.apply(X).shape == (n_rows, 3)
    assert predictor.per_tree(X).shape == (n_rows, 3, 1)
    assert predictor.decision_path(X)[0].shape == (n_rows, 9)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_forest_without_trees_answers_its_base_score(engine):
    forest = two_trees()
    empty = forest.take([])
    predictor = compile(empty, engine=engine)
    for _ in range(3):
        assert predictor.predict(ROWS).tolist() == [100.0] * 3
        assert predictor.apply(ROWS).shape == (3, 0)
        assert predictor.exit_leaves(ROWS).shape == (3, 0)
        assert predictor.per_tree(ROWS).shape == (3, 0, 1)
        assert predictor.decision_path(ROWS)[0].shape == (3, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_forest_of_single_leaves_has_one_answer(engine):
    predictor = compile(two_trees()[1], engine=engine)
    assert predictor.predict(ROWS).tolist() == [103.0] * 3


@pytest.mark.parametrize(("missing", "expected"), [(False, 10.0), (True, 20.0)])
def test_absent_entries_of_a_sparse_matrix_read_as_the_inputs_say(missing, expected):
    sparse = pytest.importorskip("scipy.sparse")
    tests = axis_aligned([0], np.array([0.5], np.float32), missing_right=True)
    forest = stump(tests=tests, inputs=Inputs(2, absent_is_missing=missing))
    X = sparse.csr_matrix((1, 2))
    predictor = compile(forest)
    assert predictor.predict(X).tolist() == [expected]
    assert predictor.info()["sparse_absent"] == ("missing" if expected == 20 else 0.0)


def test_xgboost_itself_agrees_on_sparse_rows():
    xgboost, sparse = pytest.importorskip("xgboost"), pytest.importorskip("scipy.sparse")
    from bitvec.converters.xgboost.read import convert

    rng = np.random.default_rng(0)
    X = sparse.random(500, 8, density=0.4, random_state=0, format="csr", dtype=np.float32)
    X.data[::7] = 0.0  # zeros that are stored are zeros and not missing
    y = np.asarray(X.sum(axis=1)).ravel() + rng.normal(size=500)
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1).fit(X, y)
    assert np.array_equal(compile(convert(model)).predict(X), model.predict(X))


def test_xgboost_itself_agrees_on_frames_or_the_frame_is_refused():
    pd, xgboost = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    from bitvec.converters.xgboost.read import convert

    rng = np.random.default_rng(0)
    codes, a = rng.choice([5, 7, 9], 300), rng.normal(size=300)
    frame = pd.DataFrame({"a": a, "c": pd.Categorical(codes)})
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True, n_jobs=1)
    model.fit(frame, codes * a)
    predictor = compile(convert(model))
    assert np.array_equal(predictor.predict(frame), model.predict(frame))
    for kind in (object, np.int64, np.float64):
        with pytest.raises(InputError, match="'c' of `X` must be a category column"):
            predictor.predict(frame.assign(c=pd.Series(codes, dtype=kind)))

    X = pd.DataFrame(rng.normal(size=(300, 4)))
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, X[0] - X[3])
    predictor = compile(convert(model))
    assert np.array_equal(predictor.predict(X[[3, 2, 1, 0]]), model.predict(X))
    with pytest.raises(InputError, match="none named '0'"):
        predictor.predict(X[[1, 2, 3]])


def test_sparse_rows_are_made_dense_block_by_block(monkeypatch):
    sparse = pytest.importorskip("scipy.sparse")
    monkeypatch.setattr(tables, "PART_BYTES", 2 * 2 * 8 * 3)  # three rows at a time
    forest = two_trees()
    X = sparse.random(20, 2, density=0.5, random_state=0, format="csc")
    predictor = compile(forest)
    for verb in ("raw", "exit_leaves"):
        assert np.array_equal(getattr(predictor, verb)(X), getattr(predictor, verb)(X.toarray()))
    assert predictor.raw(X[:0]).shape == (0, 1)


def test_tables_are_checked_by_the_predictor():
    with pytest.raises(InputError, match=r"2 features, got shape \(1, 3\)"):
        compile(stump()).predict(np.zeros((1, 3)))


def test_info_says_what_runs_and_why():
    info = compile(stump(), n_jobs=2).info()
    assert info["engine"] == "numba"
    assert info["why"] == "numba is installed"
    assert info["n_threads"] == min(2, available_cores())
    assert info["nodes"] == {"margin": 1}
    assert compile(stump(), engine="reference").info()["why"] == "asked for"
    assert "engine='numba'" in repr(compile(stump()))


def test_warm_predictors_predict():
    predictor = compile(stump(), warm=True)
    assert predictor.predict([[1.0, 0.0]]).tolist() == [20.0]


@pytest.mark.parametrize("copy", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_predict_with_the_kernels_that_are_compiled_already(copy):
    predictor = compile(two_trees(), warm=True, kernel="perfect")
    kernel = perfect._sum_kernel(3, 8, leaf_tables.registers(8, 8), False)
    compiled = len(kernel.compiled.signatures)
    assert compiled == 1
    assert copy(predictor).predict(ROWS).tolist() == [107.0, 109.0, 109.0]
    assert len(kernel.compiled.signatures) == compiled


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"engine": "gpu"}, "one of auto, reference, numba, torch.*got 'gpu'"),
        ({"engine": "numba", "device": "cuda"}, "`device` must be None for the engine numba"),
        ({"engine": "reference", "n_jobs": 2}, "`n_jobs` must be None for the engine reference"),
        ({"engine": "torch", "n_jobs": 2}, "`n_jobs` must be None for the engine torch"),
        ({"n_jobs": 0}, "`n_jobs` must be None or an integer other than 0, got 0"),
    ],
)
def test_options_that_an_engine_has_no_use_for_are_refused(options, match):
    with pytest.raises(InputError, match=match):
        compile(stump(), **options)


WITHOUT_NUMBA = """
import sys
for name in ["numba", *sys.argv[1:]]:
    sys.modules[name] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ["numba", *sys.argv[1:]] else found(name)

import numpy as np
from bitvec import compile
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import MissingLibraryError

stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
X = np.random.default_rng(0).normal(size=(50, 2))
for n_jobs in (None, 4):
    predictor = compile(stump, n_jobs=n_jobs)
    assert np.array_equal(predictor.raw(X), reference.raw(stump, X))
print(predictor.info()["engine"])
for use in (
    lambda: compile(stump, engine="numba"),
    lambda: importlib.import_module("bitvec.learners.tao.kernels"),
):
    try:
        use()
    except MissingLibraryError as error:
        print(error)
"""


@pytest.mark.parametrize("also_missing", [(), ("torch",)])
def test_without_numba_other_engines_predict_and_say_once_that_they_are_slow(also_missing):
    if not also_missing:
        pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA, *also_missing],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    engine = "reference" if also_missing else "torch"
    assert done.returncode == 0, done.stderr
    chosen, *refusals = done.stdout.splitlines()
    assert chosen == engine
    assert len(refusals) == 2
    assert all(text.startswith("Compiling kernels needs the library numba") for text in refusals)
    assert done.stderr.count("many times slower") == 1
    assert f"the engine {engine}, many times slower than compiled kernels" in done.stderr


@pytest.fixture
def flushed():
    torch = pytest.importorskip("torch")
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot round subnormal numbers to zero")
    yield
    torch.set_flush_denormal(False)


VERBS = ("raw", "predict", "scores", "exit_leaves", "apply", "per_tree", "rows")


SUBNORMAL_ROWS = np.array([[5e-324, 0], [0.0, 0], [-5e-324, 0]])
ABOVE_ZERO = Forest.from_matrices([[1, 0]], [0.0], [[0], [1]], [10, 20])


@pytest.mark.parametrize("engine", [*ENGINES, "torch"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_thread_that_rounds_subnormals_to_zero_is_refused_by_every_engine(flushed, engine, verb):
    predictor = compile(ABOVE_ZERO, engine=engine)
    one_row = np.ascontiguousarray(SUBNORMAL_ROWS[:1])
    for X in (SUBNORMAL_ROWS, one_row, one_row.tolist(), np.repeat(SUBNORMAL_ROWS, 50_000, axis=0)):
        with pytest.raises(BitvecError, match=r"set_flush_denormal\(False\)"):
            getattr(predictor, verb)(X)


@pytest.mark.parametrize("engine", ["numba", pytest.param("torch", marks=pytest.mark.full)])
def test_threads_that_were_started_by_one_that_flushes_give_no_other_answers(engine):
    """The helpers of a pool keep the mode of the thread that started them."""
    pytest.importorskip("torch")
    code = f"""
import numpy as np
import torch
import bitvec
from bitvec.errors import BitvecError
from bitvec.core.forest import Forest
from bitvec.runtime.predict.threads import for_each_block

torch.set_num_threads(2)
if torch.set_flush_denormal(True):
    torch.full((1 << 20,), 1.0) * 2.0
    for_each_block(lambda part: None, 1000, block=1, n_threads=2)
    torch.set_flush_denormal(False)
B = np.ones((8, 7), int)
for node, left in enumerate([range(4), (0, 1), (4, 5), [0], [2], [4], [6]]):
    B[list(left), node] = 0
oblique = Forest.from_matrices(np.eye(7) + np.eye(7, k=1), np.zeros(7), B, np.arange(8))
X = np.random.default_rng(0).choice([5e-324, 0.0, -5e-324], (100_000, 7))
expected = bitvec.compile(oblique, engine="reference").predict(X)
try:
    answer = bitvec.compile(oblique, engine={engine!r}).predict(X)
except BitvecError as error:
    assert "torch's own threads must compute with subnormal numbers" in str(error)
    assert {engine!r} == "torch"
else:
    assert np.array_equal(answer, expected)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_parts_of_a_sparse_matrix_are_refused_too(flushed, monkeypatch):
    sparse = pytest.importorskip("scipy.sparse")
    monkeypatch.setattr(tables, "PART_BYTES", 16)
    with pytest.raises(BitvecError, match="subnormal"):
        compile(ABOVE_ZERO, engine="reference").raw(sparse.csr_matrix(np.eye(2)))


@pytest.mark.parametrize("engine", [*ENGINES, "torch"])
def test_a_thread_that_keeps_subnormals_tells_them_from_zero(engine):
    predictor = compile(ABOVE_ZERO, engine=engine)
    assert predictor.predict(SUBNORMAL_ROWS).tolist() == [20, 10, 10]
    assert predictor.predict(SUBNORMAL_ROWS[:1]).tolist() == [20]


def test_an_isolation_forest_has_the_verbs_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    model = IsolationForest(n_estimators=20, contamination=0.1, random_state=0).fit(X)
    predictor = compile(convert(model))
    assert np.array_equal(predictor.score_samples(X), model.score_samples(X))
    assert np.array_equal(predictor.decision_function(X), model.decision_function(X))
    assert np.array_equal(predictor.predict(X), model.predict(X))
    with pytest.raises(BitvecError, match="needs an isolation forest"):
        compile(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])).score_samples(X[:, :2])
