"""Laws of SQL: every database that is run routes, adds and labels as the reference does.

SQLite and DuckDB always, PostgreSQL and Spark in the long run, where they are installed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from strategies import AXIS, EQUAL, SET, forests, forests_with_rows

import bitvec
from bitvec.core import reference, transforms
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, Relation, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.structure import from_children
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError
from bitvec.runtime.export.sql import DIALECTS, SqlOptions, to_sql
from bitvec.runtime.export.sql.dialects import binary
from bitvec.runtime.export.sql.link_steps import EXPONENTS, Text, unsupported_link
from bitvec.runtime.export.sql.oracle import facts_of, run_sqlite, statement_oracle
from bitvec.verify.certificates.comparison import SCORE_ULPS
from bitvec.verify.oracle import Oracle
from tests.sql_servers import SERVERS, Engine

HERE = ["sqlite", "duckdb"] if find_spec("duckdb") else ["sqlite"]
AWAY = [pytest.param(server, marks=pytest.mark.full) for server in SERVERS]
ONE_COLUMN = (AXIS, SET, EQUAL)
EngineOf = Callable[[str], Engine | None]
OracleOf = Callable[[str], Oracle]


@pytest.fixture(scope="module")
def engine_of() -> Iterator[EngineOf]:
    """What runs a dialect by a server, which starts when it is asked for; None of the others."""
    with ExitStack() as stack:
        started: dict[str, Engine] = {}

        def engine(dialect: str) -> Engine | None:
            if dialect in SERVERS and dialect not in started:
                started[dialect] = stack.enter_context(SERVERS[dialect]())
            return started.get(dialect)

        yield engine


@pytest.fixture(scope="module")
def oracle_of(engine_of: EngineOf) -> OracleOf:
    return lambda text: statement_oracle(text, engine_of(facts_of(text)["dialect"]))


@pytest.mark.parametrize("dialect", [*HERE, *AWAY])
@given(pair=forests_with_rows(kinds=ONE_COLUMN, linear=False, max_leaves=20))
def test_leaves_raw_scores_and_labels_are_those_of_the_reference(
    dialect: str, oracle_of: OracleOf, pair: tuple[Forest, np.ndarray]
) -> None:
    forest, X = pair
    oracle = oracle_of(to_sql(forest, SqlOptions(dialect, leaves=True, key=("id",))))
    assert np.array_equal(oracle.leaf_ids(X), reference.exit_leaves(forest, X))
    raw, found = reference.raw(forest, X), oracle.raw(X)
    assert oracle.exact == (forest.output.dtype == np.float64 or dialect != "sqlite")
    if not oracle.exact:
        assert np.allclose(found, raw, rtol=1e-5, atol=1e-5)
        return
    assert found.dtype == raw.dtype
    assert np.array_equal(ulps(found, raw), np.zeros(raw.shape, np.uint64))
    labels = transforms.predictions(forest.output, raw)
    assert np.array_equal(oracle.predict(X).reshape(labels.shape), labels)
    if forest.output.classes is not None:
        scores = transforms.transform(forest.output, raw)
        near = oracle.scores(X).astype(raw.dtype)
        assert np.all(ulps(near, scores) <= SCORE_ULPS)


@pytest.mark.parametrize("dialect", [*HERE, *AWAY])
@pytest.mark.parametrize("relation", [*Relation])
@pytest.mark.parametrize("sign", [-1, 1])
def test_values_beyond_the_greatest_number_are_compared(
    dialect: str, oracle_of: OracleOf, relation: Relation, sign: int
) -> None:
    most = np.finfo(np.float64).max
    forest = Forest.from_matrices(
        [[1.0]], [sign * most], [[0], [1]], [10.0, 20.0], relation=relation
    )
    X = np.array([-np.inf, -most, 0, most, np.inf, np.nan])[:, None]
    oracle = oracle_of(to_sql(forest, SqlOptions(dialect, leaves=True, key=("id",))))
    assert np.array_equal(oracle.leaf_ids(X), reference.exit_leaves(forest, X))


@pytest.mark.parametrize("dialect", ["sqlite", *AWAY])
@given(pair=forests_with_rows(kinds=ONE_COLUMN, linear=False, max_leaves=20, dtypes=(np.float32,)))
def test_float32_forests_cast_float64_rows_as_numpy_does(
    dialect: str, oracle_of: OracleOf, pair: tuple[Forest, np.ndarray]
) -> None:
    forest, X = pair
    wide = X.astype(np.float64)
    with np.errstate(over="ignore"):
        up, down = (np.nextafter(X, np.float32(side)) for side in (np.inf, -np.inf))
        ties = (wide + up.astype(np.float64)) / 2, (wide + down.astype(np.float64)) / 2
        near = [np.nextafter(rows, side) for rows in (wide, *ties) for side in (np.inf, -np.inf)]
    rows = np.concatenate([wide, *ties, *near])
    oracle = oracle_of(to_sql(forest, SqlOptions(dialect, leaves=True, key=("id",))))
    assert np.array_equal(oracle.leaf_ids(rows), reference.exit_leaves(forest, rows))


@given(forests(kinds=ONE_COLUMN, linear=False, max_leaves=6))
def test_every_dialect_is_written_and_says_whether_it_is_run(forest: Forest) -> None:
    for dialect in DIALECTS:
        text = to_sql(forest, SqlOptions(dialect, key=("id",)))
        assert ("-- not run" in text) == (dialect == "bigquery")


def test_means_of_float32_are_rounded_before_more_is_added() -> None:
    forest = chain_of(2)
    output = Output(1, np.dtype(np.float32), aggregate=Aggregate.MEAN)
    leaves = Leaves(forest.leaves.v.astype(np.float32))
    text = to_sql(replace(forest, leaves=leaves, output=output), SqlOptions("spark"))
    assert "CAST((model_s0 / CAST(1.0D AS FLOAT)) AS FLOAT)" in text


def test_binary_literals_are_read_back_by_sqlite() -> None:
    rng = np.random.default_rng(0)
    bits = np.frombuffer(rng.bytes(8 * 5000), np.float64)
    info = np.finfo(np.float64)
    ends = np.array([0.0, info.max, -info.max, info.tiny, info.smallest_subnormal, 2.0**60, 1e22])
    values = np.concatenate([bits[np.isfinite(bits)], rng.normal(size=5000), ends])
    connection = sqlite3.connect(":memory:")
    for part in np.array_split(values, 50):
        (found,) = connection.execute(f"SELECT {', '.join(map(binary, part))}")
        assert np.array_equal(np.array(found), part)


@pytest.mark.skipif("duckdb" not in HERE, reason="duckdb is not installed")
def test_decimal_literals_are_read_back_by_duckdb() -> None:
    import duckdb

    values = np.frombuffer(np.random.default_rng(0).bytes(8 * 5000), np.float64)
    values = values[np.isfinite(values)]
    number = DIALECTS["duckdb"].number
    for part in np.array_split(values, 20):
        found = duckdb.sql(f"SELECT {', '.join(map(number, part))}").fetchall()[0]
        assert np.array_equal(np.array(found), part)


@pytest.mark.parametrize("dialect", AWAY)
def test_decimal_literals_are_read_back_by_servers(dialect: str, engine_of: EngineOf) -> None:
    engine = engine_of(dialect)
    assert engine is not None
    info = np.finfo(np.float64)
    ends = np.array([0.0, info.max, -info.max, info.tiny, info.smallest_subnormal, 2.0**60, 1e22])
    values = np.frombuffer(np.random.default_rng(0).bytes(8 * 5000), np.float64)
    values = np.concatenate([values[np.isfinite(values)], ends])
    number = DIALECTS[dialect].number
    for part in np.array_split(values, 20):
        names = [f"c{at}" for at in range(len(part))]
        columns = ", ".join(
            f"{number(float(one))} AS {at}" for one, at in zip(part, names, strict=True)
        )
        found = engine[0](f"SELECT {columns} FROM rows", "rows", {"x": np.zeros(1)})
        assert np.array_equal([found[name][0] for name in names], part)


@pytest.mark.parametrize("dialect", AWAY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_of_servers_are_those_of_numpy_where_they_overflow_too(
    dialect: str, dtype: type, engine_of: EngineOf
) -> None:
    engine = engine_of(dialect)
    assert engine is not None
    info, ends = np.finfo(dtype), np.array(EXPONENTS[np.dtype(dtype).itemsize])
    x = np.concatenate([np.linspace(-800, 800, 1601), ends - 1e-3, ends + 1e-3]).astype(dtype)
    written = DIALECTS[dialect]
    column = Text(written, np.dtype(dtype), written.cast("x", np.dtype(dtype)))
    text = f"SELECT id, {column.write('Exp', column).text} AS y FROM rows ORDER BY id"
    found = engine[0](text, "rows", {"id": np.arange(x.size), "x": x.astype(np.float64)})["y"]
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(dtype)
    least = float(info.smallest_subnormal)
    assert np.allclose(found, expected.astype(np.float64), rtol=4 * info.eps, atol=least)


def colours(**of_inputs: object) -> Forest:
    ptr, words = set_bits([np.array([0, 2]), np.array([], int)])
    names = ('a "quoted" name\n-- no comment; DROP TABLE rows', "size'`\\")
    book = ("it's red", "blue\\", "green")
    return Forest(
        axis_aligned(
            [0, 1],
            np.array([0, 0.1], np.float32),
            kind=np.array([Kind.SET, Kind.MARGIN]),
            missing_right=np.array([True, False]),
            set_ptr=ptr,
            set_words=words,
        ),
        from_children([1, -1], [-2, -3], [0]),
        Leaves(np.array([[1.0], [0.2], [-3.0]])),
        Output(
            1,
            np.dtype(np.float64),
            post_transform=PostTransform.SIGMOID,
            classes=(np.array(["it's no", 'a "yes"']),),
        ),
        Inputs(2, names, (book, None)),
    )


@pytest.mark.parametrize("dialect", [*HERE, *AWAY])
def test_hostile_names_are_quoted(dialect: str, oracle_of: OracleOf) -> None:
    forest = colours()
    options = SqlOptions(dialect, leaves=True, table='ro"ws;--', key=("k 'ey",))
    oracle = oracle_of(to_sql(forest, options))
    X = np.array([[0, 1], [1, 0.05], [1, 0.2], [7, np.nan], [np.nan, 0]], np.float32)
    assert oracle.leaf_ids(X).ravel().tolist() == [2, 0, 1, 0, 2]
    assert oracle.predict(X).tolist() == forest_labels(forest, X)


def forest_labels(forest: Forest, X: np.ndarray) -> list[str]:
    return transforms.predictions(forest.output, reference.raw(forest, X)).tolist()


@pytest.mark.parametrize("dialect", ["sqlite", *AWAY])
def test_categories_may_be_texts(dialect: str, engine_of: EngineOf) -> None:
    forest = colours()
    text = to_sql(forest, SqlOptions(dialect, categories="texts", key=("id",)))
    names = forest.inputs.feature_names
    assert names is not None
    rows = {
        names[0]: np.array(["it's red", "blue\\", "purple", None, "green"], object),
        names[1]: np.array([0.05, 0.2, 0.05, 0.0, 0.0]),
        "id": np.arange(5.0),
    }
    run, _ = engine_of(dialect) or (run_sqlite, "")
    found = run(text, "rows", rows)
    X = np.array([[0, 0.05], [1, 0.2], [-1, 0.05], [np.nan, 0], [2, 0]])
    assert found["id"].tolist() == [0, 1, 2, 3, 4]
    assert found["model_label"].tolist() == forest_labels(forest, X)
    with pytest.raises(InputError, match="categories as codes"):
        statement_oracle(text, (run, ""))


def test_a_text_in_a_column_of_numbers_is_an_error_of_sqlite() -> None:
    text = to_sql(Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1, 2]), SqlOptions("sqlite"))
    with pytest.raises(sqlite3.OperationalError, match="column 0 must hold numbers, got text"):
        run_sqlite(text, "rows", {"x0": np.array([0.1, "0.7"], object)})


def test_a_missing_column_is_an_error_of_sqlite() -> None:
    text = to_sql(Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1, 2]), SqlOptions("sqlite"))
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        run_sqlite(text, "rows", {"x1": np.array([0.1])})


def test_a_statement_reads_its_table_only(tmp_path) -> None:
    first = to_sql(colours(), SqlOptions("sqlite")).split("\n", 1)[0]
    for harm in (f"ATTACH '{tmp_path}/a.db' AS a", 'DROP TABLE "rows"', "PRAGMA user_version = 3"):
        with pytest.raises(FileFormatError, match="not authorized"):
            statement_oracle(f"{first}\n{harm}").raw(np.zeros((1, 2)))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileFormatError, match="first line"):
        statement_oracle("SELECT 1")


def chain_of(n: int) -> Forest:
    left, right = [*range(1, n), -1], [*range(-2, -n - 2, -1)]
    return Forest(
        axis_aligned([0] * n, np.arange(n, 0.0, -1)),
        from_children(left, right, [0]),
        Leaves(np.random.default_rng(0).normal(size=(n + 1, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )


@pytest.mark.parametrize("dialect", AWAY)
@pytest.mark.parametrize("source", ["xgboost", "lightgbm"])
def test_models_of_many_trees_and_categories_are_certified_by_servers(
    dialect: str, source: str, oracle_of: OracleOf
) -> None:
    pytest.importorskip(source)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 9, 600), rng.normal(size=(600, 7))])
    X[:, 1:][rng.random((600, 7)) < 0.05] = np.nan
    y = (np.nansum(X, axis=1) > 4).astype(int) + (np.nan_to_num(X[:, 1]) > 1)
    options = {"n_estimators": 40, "n_jobs": 1}
    if source == "xgboost":
        import pandas as pd
        from xgboost import XGBClassifier

        codes = pd.Categorical(X[:, 0].astype(int))
        frame = pd.DataFrame(X).rename(columns=str).assign(**{"0": codes})
        model = XGBClassifier(**options, max_depth=4, enable_categorical=True).fit(frame, y)
    else:
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(**options, num_leaves=15, verbose=-1)
        model = model.fit(X, y, categorical_feature=[0])
    forest = bitvec.convert(model)
    oracle = oracle_of(to_sql(forest, SqlOptions(dialect, leaves=True, key=("id",))))
    certificate = bitvec.certify(forest, oracle)
    assert certificate.passed, certificate.summary()
    assert certificate.grade == "two-sided"


def test_many_trees_stay_below_the_depth_that_sqlite_allows() -> None:
    one = chain_of(3)
    forest = one.take(np.zeros(1100, int))
    oracle = statement_oracle(to_sql(forest, SqlOptions("sqlite")))
    X = np.array([[0.5], [1.5], [1000.0], [np.nan]])
    assert np.array_equal(oracle.raw(X), reference.raw(forest, X))
    deep = chain_of(3000)
    oracle = statement_oracle(to_sql(deep, SqlOptions("sqlite", leaves=True)))
    assert np.array_equal(oracle.leaf_ids(X), reference.exit_leaf_traversal(deep, X))
    with pytest.raises(UnsupportedModelError, match="2000 columns at most"):
        to_sql(one.take(np.zeros(2100, int)), SqlOptions("sqlite", leaves=True))


@pytest.mark.parametrize("dialect", [*HERE, *AWAY])
def test_an_export_is_certified(dialect: str, oracle_of: OracleOf, tmp_path) -> None:
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    X, y = load_iris(return_X_y=True)
    forest = bitvec.convert(RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y))
    path = bitvec.export(forest, tmp_path / "model.sql", dialect=dialect, key="id", leaves=True)
    oracle = path if dialect in HERE else oracle_of(path.read_text("utf-8"))
    certificate = bitvec.certify(forest, oracle, X)
    assert certificate.passed, certificate.summary()
    assert certificate.grade == "two-sided"
    assert certificate.oracle == dialect
    quoted = DIALECTS[dialect].quoted("id")
    assert f"t.{quoted} AS {quoted}" in path.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "mysql"}, "`dialect` must be one of duckdb"),
        ({"dialect": "sqlite", "name": "Model"}, "`name` must begin"),
        ({"dialect": "sqlite", "outputs": ("scores",)}, "`outputs` must be among"),
        ({"dialect": "sqlite", "key": ("MODEL_raw",)}, "`key` must not begin"),
        ({"dialect": "sqlite", "table": "MODEL_0"}, "`table` must not be called as a step"),
        ({"dialect": "sqlite", "key": ("a", "A")}, "differ by more than capitals"),
        ({"dialect": "sqlite", "categories": "names"}, "`categories` must be"),
        ({"dialect": "postgres", "table": "t" * 64}, "63 bytes at most"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        to_sql(colours(), SqlOptions(**options))


def test_a_dialect_must_be_named(tmp_path) -> None:
    with pytest.raises(InputError, match="dialect"):
        bitvec.export(colours(), tmp_path / "model.sql")
    with pytest.raises(InputError, match="must be left out"):
        bitvec.export(colours(), tmp_path / "model.h", dialect="sqlite")


def test_other_dialects_are_not_certified() -> None:
    with pytest.raises(InputError, match="not run here"):
        statement_oracle(to_sql(colours(), SqlOptions("bigquery")))


@pytest.mark.parametrize("link", [*PostTransform])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dialect", [*HERE, *AWAY])
def test_links_are_within_ulps_of_the_reference(dialect, dtype, link, oracle_of) -> None:
    if not DIALECTS[dialect].holds(np.dtype(dtype)):
        pytest.skip(f"{dialect} has no 32-bit floats")
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=(20, 3)), rng.normal(size=(20, 3)) * 30])
    if link is PostTransform.PROBIT:
        values = rng.uniform(0.05, 0.45, (40, 3))
    chain = len(values) - 1
    left, right = [*range(1, chain), -1], [*range(-2, -chain - 2, -1)]
    forest = Forest(
        axis_aligned([0] * chain, np.arange(chain, 0.0, -1)),
        from_children(left, right, [0]),
        Leaves(values.astype(dtype)),
        Output(3, np.dtype(dtype), post_transform=link, parameter=1.5),
        Inputs(1),
    )
    if unsupported_link(DIALECTS[dialect], forest.output) is not None:
        with pytest.raises(UnsupportedModelError, match=link.value):
            to_sql(forest, SqlOptions(dialect, outputs=("prediction",)))
        return
    oracle = oracle_of(to_sql(forest, SqlOptions(dialect, key=("id",))))
    X = np.arange(len(values), dtype=float)[:, None] + 0.5
    expected = transforms.transform(forest.output, reference.raw(forest, X))
    found = oracle.predict(X)
    assert found.dtype == expected.dtype
    # What underflows in an exponential may be flushed.
    tiny = (np.abs(found) < np.finfo(dtype).tiny) & (np.abs(expected) < np.finfo(dtype).tiny)
    assert np.all(np.where(tiny, 0, ulps(found, expected)) <= SCORE_ULPS)
