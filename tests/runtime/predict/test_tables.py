"""Rows come out the same from every container, and what does not fit is refused in one sentence."""

from __future__ import annotations

import decimal
import itertools
import warnings
from dataclasses import replace

import narwhals
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from bitvec.core.city_hash import category_hash
from bitvec.core.inputs import Domain, Inputs
from bitvec.errors import InputError, InvalidForestError
from bitvec.runtime.predict.code_books import CodeBook
from bitvec.runtime.predict.frames import FrameTable, as_frame
from bitvec.runtime.predict.native_columns import fill_columns, rows_of
from bitvec.runtime.predict.table_columns import FEW, Column, columns
from bitvec.runtime.predict.tables import open_table, rows

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
PLAIN = Inputs(3)
NAMED = Inputs(3, feature_names=("a", "b", "c"))
BOOK = Inputs(2, feature_names=("size", "colour"), categories=(None, ("red", "green", "blue")))
VALUES = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, 6.0]])
COLUMNS = {"c": [3.0, 6.0], "a": [1.0, 4.0], "b": [2.0, None]}


def pandas_frame(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def arrow_table(columns):
    return pytest.importorskip("pyarrow").table(columns)


FRAMES = [pandas_frame, polars_frame, arrow_table]


def exact(got, expected, dtype):
    assert got.dtype == dtype
    assert got.flags.c_contiguous or got.flags.f_contiguous
    assert got.flags.aligned
    assert np.array_equal(got, np.asarray(expected).astype(dtype), equal_nan=True)


# ---- arrays


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_fits_is_not_copied(order):
    X = np.asarray(VALUES, F32, order=order)
    assert np.shares_memory(rows(X, PLAIN, F32), X)


@pytest.mark.parametrize("dtype", ["?", "b", "u1", ">i4", "i8", "f2", "f4", ">f8", "g"])
def test_every_real_dtype_is_cast(dtype):
    X = np.array([[0, 1, 2], [1, 0, 3]]).astype(dtype)
    for target in (F32, F64):
        exact(rows(X, PLAIN, target), X, target)


def test_strided_reversed_and_unaligned_arrays_are_made_contiguous():
    wide = np.arange(24.0).reshape(4, 6)
    exact(rows(wide[::-2, ::2], PLAIN, F64), wide[::-2, ::2], F64)
    packed = np.zeros(4, np.dtype([("skip", "u1"), ("x", "f8", 3)]))["x"]
    exact(rows(packed, PLAIN, F64), packed, F64)


def test_values_round_to_nearest_and_overflow_to_infinity_without_a_warning():
    X = np.array([[1 + 2.0**-25, 1e300, -1e300]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(X, PLAIN, F32).tolist() == [[1.0, np.inf, -np.inf]]
        assert rows([[0, 10**400, -(10**400)]], PLAIN, F64).tolist() == [[0.0, np.inf, -np.inf]]


def test_masked_entries_are_missing():
    X = np.ma.masked_array([[1, 2, 3]], mask=[[False, True, False]])
    exact(rows(X, PLAIN, F32), [[1, np.nan, 3]], F32)


def test_object_arrays_of_numbers_are_read():
    X = np.array([[1, 2.5, True], [np.float32(0.5), decimal.Decimal("0.25"), float("nan")]], object)
    exact(rows(X, PLAIN, F64), [[1, 2.5, 1], [0.5, 0.25, np.nan]], F64)


def test_lists_and_array_likes_are_read():
    exact(rows([[1, 2, 3], (4, 5, 6)], PLAIN, F32), [[1, 2, 3], [4, 5, 6]], F32)

    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return VALUES

    exact(rows(Tensor(), PLAIN, F32), VALUES, F32)


@pytest.mark.parametrize("n_features", [0, 3])
def test_no_rows_are_no_error(n_features):
    assert rows(np.zeros((0, n_features)), Inputs(n_features), F32).shape == (0, n_features)


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (
            np.zeros((5, 28)),
            r"must have 3 features, got shape \(5, 28\): pass the training columns",
        ),
        (np.zeros(3), r"two axes.*\(3,\): pass X.reshape\(1, -1\)"),
        (np.zeros((1, 2, 3)), "two axes"),
        (np.float64(3), "NumPy|table of rows"),
        ([], "two axes"),
        ([[1, 2, 3], [4, 5]], "equal length"),
        (None, "NoneType"),
        ("abc", "got str"),
        ({"a": [1]}, "got dict"),
        (3, "got int"),
        (object(), "two axes|table"),
        (np.zeros((2, 3), complex), "complex128"),
        (np.zeros((2, 3), "M8[s]"), "datetime64"),
        (np.array([["1", "2", "3"]]), "got '1': encode"),
        ([[1, 2, "3"]], "got '?3"),
        ([[1, None, 3]], "got None: pass NaN"),
        (np.array([[1, 2, 1j]], object), "1j"),
        (np.array([[1, 2, [3]]], object), r"\[3\]"),
        (np.zeros(2, [("a", "f4")]).reshape(2, 1).repeat(3, axis=1), "real numbers"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused_in_one_sentence(X, match):
    with pytest.raises(InputError, match=match) as caught:
        rows(X, PLAIN, F32)
    assert "\n" not in str(caught.value)


# ---- sparse matrices


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("make", ["matrix", "array"])
def test_absent_entries_of_a_sparse_matrix_read_as_told_and_stored_zeros_as_zero(layout, make):
    sparse = pytest.importorskip("scipy.sparse")
    csr = sparse.csr_matrix((np.array([1.0, 0.0, np.nan]), [0, 2, 1], [0, 2, 2, 3]), shape=(3, 3))
    X = getattr(sparse, f"{layout}_{make}")(csr) if layout != "lil" else csr
    exact(rows(X, PLAIN, F32), [[1, 0, 0], [0, 0, 0], [0, np.nan, 0]], F32)
    if layout in ("csr", "csc"):
        nan = np.nan
        got = rows(X, replace(PLAIN, absent_is_missing=True), F32)
        exact(got, [[1, nan, 0], [nan, nan, nan], [nan, nan, nan]], F32)
        assert X.nnz == 3, "the caller's matrix is left as it was"


def test_entries_that_repeat_by_rows_are_refused_since_libraries_read_them_in_two_ways():
    sparse = pytest.importorskip("scipy.sparse")
    X = sparse.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))
    exact(rows(X, PLAIN, F64), [[0, 3, 0]], F64)
    twice = sparse.csr_matrix(([1.0, 2.0], [1, 1], [0, 2]), shape=(1, 3))
    with pytest.raises(InputError, match="each entry once"):
        rows(twice, PLAIN, F64)
    unsorted = sparse.csr_matrix(([1.0, 2.0], [1, 0], [0, 2]), shape=(1, 3))
    exact(rows(unsorted, PLAIN, F64), [[2, 1, 0]], F64)


def test_a_sparse_matrix_of_another_width_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InputError, match="3 features"):
        rows(sparse.csr_matrix((2, 4)), PLAIN, F32)
    with pytest.raises(InputError, match="complex"):
        rows(sparse.csr_matrix((2, 3), dtype=complex), PLAIN, F32)


# ---- data frames


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_columns_are_found_by_name_in_any_order(frame, dtype):
    exact(rows(frame(COLUMNS), NAMED, dtype), VALUES, dtype)


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_are_read_by_position_where_the_forest_has_no_names(frame):
    exact(rows(frame(COLUMNS), PLAIN, F64), VALUES[:, [2, 0, 1]], F64)
    with pytest.raises(InputError, match="3 features"):
        rows(frame({"a": [1.0]}), PLAIN, F64)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("n_rows", [0, 1, 50])
def test_floats_of_arrow_in_chunks_are_read_as_narwhals_reads_them(n_rows, dtype):
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(n_rows)
    values = rng.choice([np.nan, -np.inf, 1e300, -0.0, 0.1, 2**-149, 16777217], (n_rows, 3))
    with np.errstate(over="ignore"):
        narrow = values[:, 1].astype(np.float32)
    by_name = dict(zip("abc", [values[:, 0], narrow, values[:, 2]], strict=True))
    whole = pa.table(by_name)
    cuts = [0, 0, n_rows // 3, n_rows // 2, n_rows]
    parts = [whole.slice(at, end - at) for at, end in itertools.pairwise(cuts)]
    X = pa.concat_tables(parts).select(["c", "b", "a"])
    table = open_table(X, NAMED, dtype)
    assert table.X is X
    places = [2, 1, 0]
    slow = FrameTable(as_frame(X), places, columns(NAMED, [*"abc"]), dtype)
    for part in (slice(0, n_rows), slice(n_rows // 4, n_rows - n_rows // 5), slice(n_rows, n_rows)):
        got, expected = table.read(part), slow.read(part)
        assert got.dtype == expected.dtype == dtype
        assert got.strides == expected.strides
        assert got.tobytes() == expected.tobytes()
    if n_rows:
        out = np.from_dlpack(X.column(0).chunk(3))
        assert any(np.may_share_memory(out, held) for held in table.memory())


@pytest.mark.parametrize("order", ["abc", "cab"])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i8", "u1"])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_pandas_frame_of_one_dtype_is_read_as_narwhals_reads_it(kind, order, dtype):
    pd = pytest.importorskip("pandas")
    with np.errstate(over="ignore"):
        held = np.array([[1, 2**53 + 1, -3], [0, 16777217, 5], [7, 8, 9]]).astype(kind)
    X = pd.DataFrame(held, columns=[*order])
    table, places = open_table(X, NAMED, dtype), [order.index(name) for name in "abc"]
    slow = FrameTable(as_frame(X), places, columns(NAMED, [*"abc"]), dtype)
    for part in (slice(0, 3), slice(1, 2), slice(3, 3)):
        with np.errstate(over="ignore"):
            got = table.read(part).astype(dtype, copy=False)
        assert got.tobytes("C") == slow.read(part).tobytes("C")
    is_view = kind in ("f4", "f8") and order == "abc"
    assert np.shares_memory(table.read(slice(0, 3)), X.to_numpy()) == is_view


def test_books_are_kept_for_their_inputs_alone():
    frame, one = {"a": ["x", "y"]}, Inputs(1, ("a",), (("x", "y"),))
    other = Inputs(1, ("a",), (("y", "x"),))
    for _ in range(2):
        exact(rows(pandas_frame(frame), one, F32), [[0], [1]], F32)
        exact(rows(pandas_frame(frame), other, F32), [[1], [0]], F32)
    truth = Inputs(1, ("a",), ((True, False),), refuses_unseen=True)
    for _ in range(2):  # what was refused once is refused again
        with pytest.raises(InputError, match="must hold categories"):
            rows(pandas_frame({"a": ["x", None]}), truth, F32)


def _of_all_kinds(n_rows: int, *, nulls: bool) -> dict[str, list[object]]:
    rng = np.random.default_rng(n_rows)
    colours = [*"abcde", None] if nulls else [*"abcde"]
    text = rng.choice(np.array(colours, object), n_rows).tolist()
    return {
        "c": text,
        "f": rng.normal(size=n_rows).tolist(),
        "i": rng.integers(-5, 2**60, n_rows).tolist(),
        "k": text[::-1],
        "b": (rng.random(n_rows) < 0.5).tolist(),
    }


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("n_rows", [1, 15, 400])
@pytest.mark.parametrize("has_domains", [False, True])
def test_texts_and_categories_are_read_as_narwhals_reads_them(frame, nulls, n_rows, has_domains):
    book = ("e", "b", 7, "a", "d", "c", "never")
    kinds = [Domain(dtype) for dtype in ("any", "text", "any", "any", "text")]
    inputs = Inputs(5, ("b", "k", "i", "f", "c"), (None, book, None, None, book))
    inputs = replace(inputs, domains=tuple(kinds) if has_domains else None)
    plain = frame(_of_all_kinds(n_rows, nulls=nulls))
    categories = {
        pandas_frame: lambda X: [X.astype({"c": "category"}), X.astype({"k": "category"})[::-1]],
        polars_frame: lambda X: [
            X.cast({"c": pl.Categorical, "k": pl.Enum(["x", *"edcba"])}),
            X.cast({"k": pl.Categorical}).reverse(),
        ],
        arrow_table: lambda X: [
            X.set_column(0, "c", X["c"].dictionary_encode()),
            pytest.importorskip("pyarrow").concat_tables([X, X.slice(0, n_rows // 2)]),
        ],
    }
    for X in [plain, *categories[frame](plain)]:
        for dtype in (F32, F64):
            table = open_table(X, inputs, dtype)
            slow = FrameTable(as_frame(X), table.places, table.columns, dtype)
            for part in (slice(0, table.n_rows), slice(table.n_rows // 3, table.n_rows // 2)):
                exact(table.read(part), slow.read(part), dtype)
                columns = [*zip(table.places, table.columns, strict=True)]
                some = rows_of(X, part)
                filled = fill_columns(some, columns, np.empty((5, len(some)), dtype))
                told = {1, 2, 3, 4} if frame is not pandas_frame or n_rows < FEW else {2, 3}
                assert filled >= told
            table.finish()
            slow.finish()


@pytest.mark.parametrize("n_texts", [3, 1000])
@pytest.mark.parametrize("places", ["uint8", "int32", "uint64"])
def test_places_of_any_integers_are_read(places, n_texts):
    pa = pytest.importorskip("pyarrow")
    index = pa.array([0, 1, None] * 10, places)
    column = pa.DictionaryArray.from_arrays(index, [str(k) for k in range(n_texts)])
    inputs = Inputs(1, ("a",), (("1", "0"),))
    exact(rows(pa.table({"a": column}), inputs, F32), [[1], [0], [np.nan]] * 10, F32)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_missing_column_is_named(frame):
    with pytest.raises(InputError, match="none named 'b'"):
        rows(frame({"a": [1.0], "c": [2.0], "d": [3.0]}), NAMED, F32)


@pytest.mark.parametrize("frame", FRAMES)
def test_further_columns_warn_once_and_are_passed_over(frame):
    with pytest.warns(UserWarning, match="'x', 'y'") as caught:
        got = rows(frame({"x": ["?", "?"], **COLUMNS, "y": [0, 0]}), NAMED, F64)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the warning names the caller's line"
    exact(got, VALUES, F64)


@pytest.mark.parametrize("frame", FRAMES)
def test_integers_and_booleans_with_nulls_are_numbers_and_nan(frame):
    columns = {"a": [1, None], "b": [True, None], "c": [True, False]}
    exact(rows(frame(columns), NAMED, F32), [[1, 1, 1], [np.nan, np.nan, 0]], F32)


def test_pandas_nullable_dtypes_are_read():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], dtype="Int64"),
            "b": pd.array([None, True], dtype="boolean"),
            "c": pd.array([1.5, None], dtype="Float32"),
        }
    )
    exact(rows(frame, NAMED, F32), [[1, np.nan, 1.5], [np.nan, 1, np.nan]], F32)


def test_pandas_labels_that_are_no_strings_are_names_as_xgboost_makes_them():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(VALUES)
    numbered = replace(NAMED, feature_names=("0", "1", "2"))
    exact(rows(frame[[2, 0, 1]], numbered, F64), VALUES, F64)
    with pytest.raises(InputError, match=r"none named 'a', 'b', 'c'.*or pass an array"):
        rows(frame, NAMED, F64)
    with pytest.warns(UserWarning, match="does not read: '3'"):
        exact(rows(frame.assign(**{"3": 0.0})[["3", 2, 1, 0]], numbered, F64), VALUES, F64)
    levels = pd.MultiIndex.from_tuples([("b", 1), ("a", 1), ("a", 2)])
    joined = replace(NAMED, feature_names=("a 1", "a 2", "b 1"))
    got = rows(pd.DataFrame(VALUES[:, [2, 0, 1]], columns=levels), joined, F64)
    exact(got, VALUES, F64)
    odd = pd.DataFrame(VALUES, columns=pd.Index([0.5, None, pd.Timestamp("2020-01-01")], dtype="O"))
    names = tuple(odd.columns.map(str))
    exact(rows(odd[odd.columns[::-1]], replace(NAMED, feature_names=names), F64), VALUES, F64)
    with pytest.raises(InputError, match="distinct"):
        rows(pd.DataFrame(VALUES, columns=["0", 0, "1"]), numbered, F64)
    exact(rows(frame[[2, 1, 0]], PLAIN, F64), VALUES[:, ::-1], F64)


def test_pandas_columns_with_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="distinct"):
        rows(pd.DataFrame(VALUES, columns=["a", "b", "a"]), NAMED, F64)


@pytest.mark.parametrize("n_rows", [2, 200])
def test_polars_integers_of_128_bits_are_read(n_rows):
    pl = pytest.importorskip("polars", minversion="1.20")
    wide = pl.DataFrame({"a": [1, 2**64] * n_rows}, schema={"a": pl.Int128})
    exact(rows(wide, Inputs(1), F64), [[1.0], [2.0**64]] * n_rows, F64)
    holed = wide.with_columns(pl.when(pl.col("a") > 1).then("a"))
    exact(rows(holed, Inputs(1), F32), [[np.nan], [2.0**64]] * n_rows, F32)


def test_polars_decimals_and_enums_are_read():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "size": pl.Series([decimal.Decimal("1.5"), None]),
            "colour": pl.Series(["blue", "red"], dtype=pl.Enum(["red", "blue"])),
        }
    )
    exact(rows(frame, BOOK, F32), [[1.5, 2], [np.nan, 0]], F32)


COLOURS = {"size": [1.0, 2.0, 3.0, 4.0], "colour": ["green", "pink", None, "red"]}
CODES = [[1, 1], [2, -1], [3, np.nan], [4, 0]]


@pytest.mark.parametrize("frame", FRAMES)
def test_categories_are_read_by_the_code_book_unseen_is_minus_one_and_null_is_nan(frame):
    exact(rows(frame(COLOURS), BOOK, F32), CODES, F32)


def test_category_dtypes_are_read_by_the_forests_code_book_not_their_own():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame(COLOURS).astype({"colour": "category"})
    exact(rows(frame, BOOK, F32), CODES, F32)
    exact(rows(pl.DataFrame(COLOURS).cast({"colour": pl.Categorical}), BOOK, F32), CODES, F32)
    table = pytest.importorskip("pyarrow").table(COLOURS)
    table = table.set_column(1, "colour", table["colour"].dictionary_encode())
    exact(rows(table, BOOK, F32), CODES, F32)


def test_object_arrays_are_read_by_the_code_book():
    X = np.array(list(zip(*COLOURS.values(), strict=True)), object)
    exact(rows(X, BOOK, F32), CODES, F32)


@pytest.mark.parametrize("frame", FRAMES)
def test_numbers_in_a_column_of_text_categories_are_codes(frame):
    exact(rows(frame({"size": [0.0], "colour": [2]}), BOOK, F32), [[0, 2]], F32)


def test_numbers_beside_texts_are_categories_that_are_not_known():
    pd = pytest.importorskip("pandas")
    inputs = Inputs(1, feature_names=("n",), categories=(("red", "green"),))
    for filler in (1, 1.0, np.int64(0), decimal.Decimal(1), True):
        for size in (4, 400):  # few rows are read cell by cell
            cells = pd.Series(["red", filler, None, "green"] * (size // 4), dtype=object)
            with pytest.warns(UserWarning, match="no category for"):
                found = rows(pd.DataFrame({"n": cells}), inputs, F32)
            exact(found, [[0], [-1], [np.nan], [1]] * (size // 4), F32)
    with pytest.warns(UserWarning, match="no category for"):
        exact(rows(np.array([["red"], [1]], object), inputs, F32), [[0], [-1]], F32)


def test_categories_that_are_numbers_need_a_category_column():
    pd = pytest.importorskip("pandas")
    inputs = Inputs(1, feature_names=("n",), categories=((10, 20, 30),))
    frame = pd.DataFrame({"n": [30, 10, 40]})
    with pytest.raises(InputError, match="'n' of `X` must be a category column"):
        rows(frame, inputs, F32)
    exact(rows(frame.astype("category"), inputs, F32), [[2], [0], [-1]], F32)
    exact(rows(np.array([[2.0]]), inputs, F32), [[2]], F32)
    in_order = Inputs(1, feature_names=("n",), categories=((0, 1, 2),))
    exact(rows(pd.DataFrame({"n": [2, 7]}), in_order, F32), [[2], [7]], F32)


@pytest.mark.parametrize("label", [7, 7.0, np.int64(7), decimal.Decimal(7)])
def test_numbers_as_objects_that_may_be_codes_or_categories_are_refused(label):
    pd = pytest.importorskip("pandas")
    inputs = Inputs(1, feature_names=("n",), categories=((5, 7, 9),))
    for values in ([label, 5], [None, label]):
        frame = pd.DataFrame({"n": pd.Series(values, dtype=object)})
        with pytest.raises(InputError, match="'n' of `X` must be a category column"):
            rows(frame, inputs, F32)
        with pytest.raises(InputError, match="column 0 of `X` must be a category column"):
            rows(frame.to_numpy(), inputs, F32)
    assert np.isnan(rows(pd.DataFrame({"n": [None]}, dtype=object), inputs, F32)).all()
    exact(rows([[2]], inputs, F32), [[2]], F32)  # an array of numbers holds codes


def test_a_number_among_text_categories_is_read_only_where_it_is_its_own_code():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"n": pd.Series(["red", 5], dtype=object)})
    with pytest.raises(InputError, match="must be a category column"):
        rows(frame, Inputs(1, categories=(("red", 5),)), F32)
    own = pd.DataFrame({"n": pd.Series(["red", 1], dtype=object)})
    exact(rows(own, Inputs(1, categories=(("red", 1),)), F32), [[0], [1]], F32)


@pytest.mark.parametrize("frame", FRAMES)
def test_text_where_the_forest_reads_numbers_is_refused(frame):
    with pytest.raises(InputError, match=r"column 'a'.*no categories.*got 'x'"):
        rows(frame({"a": ["x"], "b": [1], "c": [1]}), NAMED, F32)


def test_a_pandas_category_without_a_code_book_is_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.Categorical([3, 1]), "b": [1, 1], "c": [1, 1]})
    with pytest.raises(InputError, match="no categories"):
        rows(frame, NAMED, F32)


def test_dates_lazy_frames_and_single_columns_are_refused_with_a_remedy():
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    with pytest.raises(InputError, match="collect"):
        rows(pl.DataFrame(COLUMNS).lazy(), NAMED, F32)
    with pytest.raises(InputError, match="two axes"):
        rows(pl.Series([1.0]), NAMED, F32)
    with pytest.raises(InputError, match="two axes"):
        rows(pd.Series([1.0]), NAMED, F32)
    dates = pd.DataFrame({**COLUMNS, "a": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    with pytest.raises(InputError, match=r"Datetime.*'a'"):
        rows(dates, NAMED, F32)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_without_rows_is_no_error(frame):
    columns = {name: np.zeros(0) for name in "abc"}
    assert rows(frame(columns), NAMED, F32).shape == (0, 3)


# ---- code books of numbers, and of hashes


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("book", [(10, 20), (0, 1), (0.5, 1.5), (False, True)])
def test_text_where_all_categories_are_numbers_is_refused(frame, book):
    inputs = Inputs(1, feature_names=("n",), categories=(book,))
    with pytest.raises(InputError, match=rf"'n' of .*{book[1]}.*got the text '20'") as caught:
        rows(frame({"n": [None, "20"]}), inputs, F32)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"column 0 of .*got the text '20'"):
        rows([["20"]], inputs, F32)


def test_text_in_a_column_with_an_empty_code_book_is_an_unseen_category():
    with pytest.warns(UserWarning, match="no category for"):
        exact(rows([["x"]], Inputs(1, categories=((),)), F32), [[-1]], F32)


HASHED = Inputs(
    2,
    feature_names=("size", "colour"),
    categories=(None, (category_hash("red"), "green", category_hash(""), category_hash(7))),
    hashed=(1,),
)
HASHED_COLOURS = {"size": [1.0] * 7, "colour": ["green", "red", "", "7", "Red", None, "red"]}
HASHED_CODES = [[1, code] for code in (1, 0, 2, 3, -1, np.nan, 0)]


@pytest.mark.parametrize("frame", FRAMES)
def test_texts_are_found_by_their_hashes_where_the_book_holds_hashes(frame):
    with pytest.warns(UserWarning, match=r"1 values in column 'colour'.*'Red'"):
        exact(rows(frame(HASHED_COLOURS), HASHED, F32), HASHED_CODES, F32)
    X = np.array(list(zip(*HASHED_COLOURS.values(), strict=True)), object)
    with pytest.warns(UserWarning, match="1 values in column 1"):
        exact(rows(X, HASHED, F32), HASHED_CODES, F32)


def test_a_number_is_a_hashed_category_in_a_category_column_only():
    pd = pytest.importorskip("pandas")
    book = HASHED.categories[1]
    frame = pd.DataFrame({"size": [0.0, 0.0], "colour": pd.Series([7, None], dtype="category")})
    exact(rows(frame, HASHED, F32), [[0, 3], [0, np.nan]], F32)
    for column in ([7, 7], [book[0], 7], pd.Series(["red", 7], dtype=object)):
        with pytest.raises(InputError, match="'colour' of `X` must hold texts"):
            rows(frame.assign(colour=column), HASHED, F32)
    exact(rows(np.array([[0.0, 3.0]]), HASHED, F32), [[0, 3]], F32)  # an array holds codes
    with pytest.raises(InputError, match=r"texts or whole numbers, got 7\.5"):
        rows(frame.assign(colour=pd.Categorical([7.5, 7.5])), HASHED, F32)
    # The number of a hash is no category, though it stands in the book.
    with pytest.warns(UserWarning, match="2 values"):
        rows(frame.assign(colour=pd.Categorical([book[0]] * 2)), HASHED, F32)


@pytest.mark.parametrize(
    ("categories", "hashed"),
    [(None, (0,)), ((None,), (0,)), (((1,),), (1,)), (((1,),), (-1,)), (((1.5,),), (0,))],
)
def test_hashed_columns_have_code_books_of_texts_and_whole_numbers(categories, hashed):
    with pytest.raises(InvalidForestError, match="`hashed` must name"):
        Inputs(1, categories=categories, hashed=hashed)


# ---- categories that are numbers, decimals or not known


DECIMALS = Inputs(
    1, feature_names=("n",), categories=(("<OOD>", "7", "3", "true", ""),), decimals=(0,)
)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_whole_number_is_the_category_of_its_decimals(frame):
    exact(rows(frame({"n": [3, 7, 3]}), DECIMALS, F32), [[2], [1], [2]], F32)
    exact(rows(frame({"n": ["3", None, ""]}), DECIMALS, F32), [[2], [np.nan], [4]], F32)
    exact(rows(frame({"n": [True, True]}), DECIMALS, F32), [[3], [3]], F32)
    with pytest.warns(UserWarning, match="3 values in column 'n'"):
        exact(rows(frame({"n": [0, 1, -7]}), DECIMALS, F32), [[-1], [-1], [-1]], F32)
    with pytest.raises(InputError, match="is the category of its decimals"):
        rows(frame({"n": [3.0]}), DECIMALS, F32)
    exact(rows(np.array([["3"], [7]], object), DECIMALS, F32), [[2], [1]], F32)
    exact(rows([[2], [1]], DECIMALS, F32), [[2], [1]], F32)  # an array of numbers holds codes


@pytest.mark.parametrize("decimals", [False, True])
def test_whole_numbers_stand_for_themselves_in_a_category_column_too(decimals):
    pd = pytest.importorskip("pandas")
    inputs = Inputs(1, feature_names=("n",), whole_numbers=(0,), decimals=(0,) if decimals else ())
    for column in ([20, -3], pd.Categorical([20, -3], [-3, 5, 20]), pd.array([20, -3], "Int64")):
        exact(rows(pd.DataFrame({"n": column}), inputs, F32), [[20], [-3]], F32)
    missing = pd.DataFrame({"n": pd.Categorical([20, None])})
    exact(rows(missing, inputs, F32), [[20], [np.nan]], F32)
    texts = pd.DataFrame({"n": pd.Categorical(["20", "020", "x"])})
    if decimals:
        with pytest.warns(UserWarning, match="2 values"):
            exact(rows(texts, inputs, F32), [[20], [np.nan], [np.nan]], F32)
    else:
        with pytest.raises(InputError, match=r"that are whole numbers, got '20'"):
            rows(texts, inputs, F32)
    for unit in ("s", "us", "ns"):
        times = pd.DatetimeIndex(["2020-01-01"]).as_unit(unit)
        with pytest.raises(InputError, match="whole numbers, got '2020"):
            rows(pd.DataFrame({"n": pd.Categorical(times)}), inputs, F32)


def test_a_truth_value_is_not_the_number_that_equals_it():
    pd = pytest.importorskip("pandas")
    for book, other in (((True, False), [1, 0]), ((0, 1), [True, False])):
        inputs = Inputs(1, feature_names=("n",), categories=(book,))
        with pytest.raises(InputError, match="must hold categories of the kind of the forest's"):
            rows(pd.DataFrame({"n": pd.Categorical(other)}), inputs, F32)
        own = pd.DataFrame({"n": pd.Categorical(book, book)})
        exact(rows(own, inputs, F32), [[0], [1]], F32)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_category_that_is_not_known_is_refused_where_the_forest_says_so(frame):
    strict = replace(BOOK, refuses_unseen=True)
    for _ in range(2):
        with pytest.raises(InputError, match=r"'colour' of `X` must hold categories.*got 'pink'"):
            rows(frame({"size": [0.0], "colour": ["pink"]}), strict, F32)
    exact(rows(frame({"size": [0.0], "colour": ["blue"]}), strict, F32), [[0, 2]], F32)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"whole_numbers": (1,)}, "whole_numbers"),
        ({"whole_numbers": (0,), "categories": (("a",),)}, "whole_numbers"),
        ({"decimals": (0,)}, "decimals"),
        ({"decimals": (0,), "categories": (("a", 1),)}, "decimals"),
    ],
)
def test_columns_of_numbers_and_decimals_are_what_they_must_be(given, name):
    with pytest.raises(InvalidForestError, match=f"`{name}` must name"):
        Inputs(1, **given)


@pytest.mark.parametrize(
    "library",
    ["pandas", "categorical", "object", "polars", "enum", "arrow", "dictionary", "pandas of arrow"],
)
@examples(15)
@given(
    cells=st.lists(st.sampled_from(["red", "green", "blue", "pink", "1", "", None]), max_size=12)
)
def test_each_distinct_value_is_read_once_and_all_cells_are_those_of_the_slow_way(library, cells):
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    labels = sorted({cell for cell in cells if cell is not None})
    series = {
        "pandas": lambda: pd.Series(cells, dtype="string"),
        "object": lambda: pd.Series(cells, dtype=object),
        "categorical": lambda: pd.Series(pd.Categorical(cells, labels)),
        "polars": lambda: pl.Series(cells, dtype=pl.String),
        "enum": lambda: pl.Series(cells, dtype=pl.Enum(labels)),
        "arrow": lambda: pa.chunked_array([cells[:5], cells[5:]], pa.string()),
        "dictionary": lambda: pa.chunked_array(
            [pa.array(cells[:5], pa.string()).dictionary_encode(),
             pa.array(cells[5:], pa.string()).dictionary_encode()]
        ),
        "pandas of arrow": lambda: pd.Series(
            cells, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
        ),
    }[library]()  # fmt: skip
    fast, slow = (Column("c", CodeBook(("blue", "red", ""))) for _ in range(2))
    read = fast.from_series(narwhals.from_native(series, series_only=True))
    np.testing.assert_array_equal(read, slow.from_values(cells))
    assert (fast.n_unseen, fast.unseen) == (slow.n_unseen, slow.unseen)


def test_a_list_of_truth_values_holds_categories_and_not_numbers():
    truth = Inputs(2, categories=(None, (True, False)))
    listed = [[1.0, True], [2.0, False]]
    for X in (listed, np.array(listed, object)):
        exact(rows(X, truth, F32), [[1, 0], [2, 1]], F32)


def test_no_column_stands_for_another_whose_name_has_no_blank():
    spaced = Inputs(2, ("a b", "a_b"))
    with pytest.raises(InputError, match="none named 'a_b'"):
        rows(pandas_frame({"a b": [1.0], "c": [2.0]}), spaced, F32)
    joined = Inputs(2, ("a_b", "c"))
    exact(rows(pandas_frame({"c": [2.0], "a b": [1.0]}), joined, F32), [[1, 2]], F32)


@pytest.mark.parametrize("dtype", [object, "string", "str"])
@pytest.mark.parametrize("null", ["any", "nan", "none"])
def test_few_texts_with_nulls_are_read_as_many(dtype, null):
    pandas = pytest.importorskip("pandas")
    domains = (Domain("any"), Domain("text", null=null))
    inputs = replace(BOOK, domains=domains)
    for empty in (None, np.nan, pandas.NA):
        cells = pandas.Series(["red", empty, "blue"] * 10, dtype=dtype)
        frame = pandas.DataFrame({"size": np.arange(30.0), "colour": cells})
        found = []
        for part in (frame, frame[:3]):
            try:
                found.append(rows(part, inputs, F32)[:3])
            except InputError:
                found.append("refused")
        assert type(found[0]) is type(found[1])
        assert found[0] is found[1] or np.array_equal(*found, equal_nan=True)
