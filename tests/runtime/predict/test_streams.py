"""Rows larger than memory: iterators of tables, parts of them, and files mapped into memory."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import forests_with_rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import axis_aligned
from bitvec.errors import InputError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.predictor import VERBS, compile

ENGINES = ["numba", "reference"]
ROWS = np.array([[0.0, 9.0], [1.0, 8.0], [0.5, 7.0], [np.nan, 6.0], [np.inf, 5.0]])


@pytest.fixture
def predictor():
    return compile(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))


def parts(X, *cuts):
    return iter(np.split(X, cuts))


@settings(max_examples=25)
@given(forests_with_rows(), st.data())
def test_a_stream_answers_as_the_whole(drawn, data):
    forest, X = drawn
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=3)))
    predictor = compile(forest, n_jobs=1)
    with np.errstate(all="ignore"):
        for verb in ("raw", "predict", "apply", "per_tree"):
            expected = getattr(predictor, verb)(X)
            got = getattr(predictor, verb)(parts(X, *cuts))
            assert got.dtype == expected.dtype
            assert np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f")


def test_every_method_takes_a_stream(predictor):
    for verb in set(VERBS) - {"predict_proba", "score_samples"}:
        answer = getattr(predictor, verb)
        got, expected = answer(parts(ROWS, 2)), answer(ROWS)
        if verb == "decision_path":
            got, expected = got.toarray(), expected.toarray()
        assert np.array_equal(got, expected)


def test_a_stream_may_hold_tables_of_different_kinds(predictor):
    pd, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    ints = np.array([[1, 0], [0, 3]])
    blocks = [
        ROWS,
        ints,
        pd.DataFrame(ints),
        sparse.csr_matrix(ints),
        [[2, 2]],
        ROWS[:0],
        np.asfortranarray(ROWS, np.float32),
    ]
    expected = np.concatenate([predictor.raw(block) for block in blocks])
    assert np.array_equal(predictor.raw(iter(blocks)), expected)
    out = np.empty((len(expected), 1))
    assert predictor.raw((block for block in blocks), out=out) is out
    assert np.array_equal(out, expected)


def test_an_empty_stream_answers_nothing(predictor):
    assert predictor.raw(iter([])).shape == (0, 1)
    assert predictor.predict(iter([])).shape == (0,)
    assert predictor.apply(iter([np.zeros((0, 2))])).shape == (0, 1)
    assert predictor.decision_path(iter([])).shape == (0, 3)
    assert predictor.raw(iter([]), out=np.empty((0, 1))).shape == (0, 1)


@pytest.mark.parametrize(("n_rows", "match"), [(4, "at least.* 5 rows.* got 4"), (6, "5 rows.* 6")])
def test_an_array_for_a_stream_has_a_row_for_each_of_its_rows(predictor, n_rows, match):
    with pytest.raises(InputError, match=match):
        predictor.raw(parts(ROWS, 3), out=np.empty((n_rows, 1)))


def test_a_block_that_does_not_fit_or_overlaps_is_refused(predictor):
    with pytest.raises(InputError, match="2 features"):
        predictor.raw(iter([ROWS, np.zeros((1, 3))]))
    with pytest.raises(InputError, match="two axes"):
        predictor.raw(iter(ROWS))
    with pytest.raises(InputError, match="got str"):
        predictor.raw(iter(["a", "b"]))
    both = np.zeros((2, 3))
    with pytest.raises(InputError, match="share no memory"):
        predictor.raw(iter([both[:, :2]]), out=both[:, :1])


def test_an_error_of_the_stream_itself_reaches_the_caller(predictor):
    def broken():
        yield ROWS
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        predictor.predict(broken())


def test_blocks_are_answered_one_by_one_as_they_are_asked_for(predictor):
    taken = []

    def blocks():
        for part in np.split(ROWS, 5):
            taken.append(len(taken))
            yield part

    answers = predictor.predict_blocks(blocks())
    assert taken == []
    assert next(answers).tolist() == [10.0]
    assert taken == [0]
    assert [part.tolist() for part in answers] == [[20.0], [10.0], [10.0], [20.0]]
    paths = predictor.predict_blocks([ROWS], "decision_path")
    assert next(paths).shape == (5, 3)
    with pytest.raises(InputError, match=r"`method` must be one of predict, .*got 'fit'"):
        predictor.predict_blocks([], "fit")


# ---- no copy of the whole


def traced(work):
    """Return the most bytes that were held at a time during some work."""
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def strided(X):
    return {
        "C": X,
        "F": np.asfortranarray(X),
        "reversed": X[::-1, ::-1],
        "strided": np.repeat(X, 2, axis=0)[::2],
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("forest_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_of_any_strides_and_width_are_answered_as_if_cast_first(engine, forest_dtype, dtype):
    rng = np.random.default_rng(0)
    b = np.array([0.1], forest_dtype)
    forest = replace(
        Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]), tests=axis_aligned([0], b)
    )
    near = np.nextafter(np.float64(b[0]), [-np.inf, np.inf])
    values = np.array([*near, b[0], 0.1, np.nan, np.inf, -np.inf, 1e300, -0.0])
    with np.errstate(over="ignore"):
        X = rng.choice(values, (300, 2)).astype(dtype)
    predictor = compile(forest, engine=engine)
    for same in strided(X).values():
        before = same.copy()
        assert np.array_equal(predictor.raw(same), reference.raw(forest, same))
        assert np.array_equal(predictor.exit_leaves(same), reference.exit_leaves(forest, same))
        assert np.array_equal(before, same, equal_nan=True)


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "strided"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_not_copied_as_a_whole(layout, dtype):
    forest = replace(
        Forest.from_matrices([[1] + [0] * 39], [0.5], [[0], [1]], [10, 20]),
        tests=axis_aligned([0], np.array([0.5], np.float32)),
    )
    X = strided(np.zeros((40_000, 40), dtype))[layout]
    predictor = compile(forest)
    out = np.empty((len(X), 1))
    assert traced(lambda: predictor.raw(X, out=out)) < X.nbytes / 4


def test_what_is_converted_is_converted_part_by_part(monkeypatch):
    pd, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    n, width = 40_000, 40
    monkeypatch.setattr(tables, "PART_BYTES", n * width)  # an eighth
    stump = Forest.from_matrices([[1] + [0] * 39], [0.5], [[0], [1]], [10, 20])
    predictor = compile(stump, warm=True)  # what is compiled takes memory, too
    out = np.empty((n, 1))
    ints = np.ones((n, width), np.int8)
    csr = sparse.random(n, width, density=0.01, format="csr", random_state=0)
    for X in (ints, pd.DataFrame(ints), csr, csr.tocsc(), ints.astype(">f4"), ints.astype("f2")):
        assert traced(lambda X=X: predictor.raw(X, out=out)) < 8 * n * width / 2


def test_a_large_integer_is_rounded_once():
    # To float32 by way of float64 it would fall on a tie and go to the even neighbour.
    value = np.array([[2**60 + 2**36 + 1]])
    assert value.astype(np.float32) != value.astype(np.float64).astype(np.float32)
    forest = replace(
        Forest.from_matrices([[1]], [0.5], [[0], [1]], [10, 20]),
        tests=axis_aligned([0], np.array([2.0**60], np.float32)),
    )
    assert compile(forest).raw(value).tolist() == [[20.0]]
    assert compile(forest).raw(value.tolist()).tolist() == [[20.0]]


def test_files_mapped_into_memory_are_read_as_arrays(tmp_path, predictor):
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.array_equal(predictor.predict(mapped), predictor.predict(ROWS))
    assert type(predictor.predict(mapped)) is np.ndarray


def test_a_frame_in_parts_warns_once_of_each_thing(monkeypatch):
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr(tables, "PART_BYTES", 8)  # one row at a time
    inputs = Inputs(1, feature_names=("colour",), categories=(("red", "blue"),))
    forest = replace(Forest.from_matrices([[1]], [0.5], [[0], [1]], [10, 20]), inputs=inputs)
    frame = pd.DataFrame({"colour": ["blue", "pink", "red", "grey"], "more": 1})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert compile(forest).predict(frame).tolist() == [20, 10, 10, 10]
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "does not read: 'more'" in messages[0]
    assert "holds 2 values in column 'colour'" in messages[1]
    assert "'pink'" in messages[1]
    assert all(warning.filename == __file__ for warning in caught)
