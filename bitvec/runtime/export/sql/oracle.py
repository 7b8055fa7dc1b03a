"""Statements of SQL run over rows: the other side of a certificate.

SQLite is Python's own; DuckDB needs its package. A statement can read the table of rows and nothing
else. In SQLite an infinity is stored as such, and NaN as NULL.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, InputError
from bitvec.runtime.export.sql.dialects import DIALECTS, MARK
from bitvec.verify.oracle import Oracle, require_columns

ROWS = 20_000
"""Rows of a table at a time."""
Run = Callable[[str, str, dict[str, Array]], dict[str, Array]]


def oracle_of(path: str | os.PathLike[str]) -> Oracle:
    """Return a .sql file that bitvec has written as the oracle of a certificate.

    Raises
    ------
    FileFormatError
        If bitvec has not written it, or the database does not run it.
    InputError
        If its dialect is not run here, or it reads categories as texts or has no raw scores.
    MissingLibraryError
        If it is for DuckDB, which is not installed.
    """
    return statement_oracle(Path(path).read_text("utf-8"))


def statement_oracle(statement: str, engine: tuple[Run, str] | None = None) -> Oracle:
    """Return the text of such a file as the oracle of a certificate; it raises the same.

    Parameters
    ----------
    statement : str
    engine : (callable, str), optional
        What runs a statement over a table of columns, and its version: a server of another dialect
        than those that are run here.
    """
    facts = facts_of(statement)
    run, version = engine or _engine(facts["dialect"])
    if facts["categories"] != "codes":
        raise InputError(
            'a statement must read categories as codes to be certified, got categories="texts": '
            "certify the same export with codes."
        )
    if "raw" not in facts["outputs"]:
        raise InputError(
            f"a statement must have the output raw to be certified, got {facts['outputs']}: add it."
        )

    def columns(X: Array) -> dict[str, Array]:
        require_columns(X, len(facts["features"]))
        parts = []
        for start in range(0, max(len(X), 1), ROWS):
            rows = X[start : start + ROWS]
            table = {name: rows[:, k] for k, name in enumerate(facts["features"])}
            table |= {name: np.arange(len(rows)) for name in facts["key"]}
            try:
                found = run(statement, facts["table"], table)
            except (sqlite3.Error, RuntimeError) as error:
                raise FileFormatError(
                    f"the statement must be one that {facts['dialect']} runs, got: "
                    f"{str(error)[:300]}"
                ) from None
            if facts["key"]:  # a database may give rows in any order
                order = np.argsort(found[facts["key"][0]], kind="stable")
                found = {name: values[order] for name, values in found.items()}
            parts.append(found)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    last: list[Any] = [None, {}]

    def answered(X: Array) -> dict[str, Array]:
        if last[0] is not X:  # all outputs of one statement come at once
            last[:] = [X, columns(X)]
        found: dict[str, Array] = last[1]
        return found

    def block(X: Array, what: str, count: int) -> Array:
        found, name = answered(X), f"{facts['name']}_{what}"
        names = [name] if name in found else [f"{name}_{k}" for k in range(count)]
        return np.stack([found[one] for one in names], axis=1)

    def scores(X: Array) -> Array:
        sizes = _sizes(facts)
        every = block(X, "probability", sum(2 if two else n for n, two in sizes))
        kept, at = [], 0
        for n, two in sizes:
            kept += [at + 1] if two else list(range(at, at + n))
            at += 2 if two else n
        return every[:, kept]

    def labels(X: Array) -> Array:
        groups = len(facts["classes"])
        found = block(X, "label", groups)
        known = [np.array(classes) for classes in facts["classes"]]
        one = [found[:, k].astype(known[k].dtype) for k in range(groups)]
        return one[0] if groups == 1 else np.stack(one, axis=1)

    outputs, n_outputs = facts["outputs"], facts["n_outputs"]
    score = np.dtype(facts["score_dtype"])

    def numbers(X: Array, what: str) -> Array:
        found = block(X, what, n_outputs).astype(np.float64)
        return found.astype(score) if facts["exact"] else found

    predict: Callable[[Array], Array] | None = None
    if "label" in outputs:
        predict = labels
    elif "prediction" in outputs:
        predict = lambda X: numbers(X, "prediction")  # noqa: E731
    inexact = (
        f"{facts['dialect']} has no 32-bit floats: raw scores are within rounding, and labels were "
        "compared where they are equal"
    )
    return Oracle(
        name=facts["dialect"],
        version=version,
        raw=lambda X: numbers(X, "raw"),
        leaf_ids=(lambda X: block(X, "leaf", facts["n_trees"])) if "leaves" in outputs else None,
        exact=facts["exact"],
        predict=predict,
        scores=(lambda X: scores(X).astype(np.float64)) if "probabilities" in outputs else None,
        n_trees=facts["n_trees"],
        n_features=len(facts["features"]),
        n_outputs=n_outputs,
        feature_names=tuple(facts["features"]),
        notes=() if facts["exact"] else (inexact,),
    )


def facts_of(statement: str) -> dict[str, Any]:
    """Return what the first line of a statement says of it.

    Raises
    ------
    FileFormatError
    """
    first = statement.split("\n", 1)[0]
    try:
        if not first.startswith(MARK):
            raise ValueError
        facts: dict[str, Any] = json.loads(first.removeprefix(MARK))
    except ValueError:
        raise FileFormatError(
            "a .sql file must be one that bitvec.export wrote, got another first line."
        ) from None
    return facts


def is_run(dialect: str) -> bool:
    """Return whether statements of a dialect can be certified without a server."""
    return dialect in ("sqlite", "duckdb")


def _engine(dialect: str) -> tuple[Run, str]:
    if dialect == "sqlite":
        return run_sqlite, sqlite3.sqlite_version
    if not is_run(dialect):
        raise InputError(
            f"a statement must be for duckdb or sqlite to be certified, got {dialect}: it needs "
            "a server, which is not run here."
        )
    from bitvec.runtime.export.sql import duckdb

    return duckdb.run, duckdb.VERSION


def _sizes(facts: dict[str, Any]) -> list[tuple[int, bool]]:
    """Return the outputs of each group, and whether one of them stands for two classes."""
    pairs = zip(facts["groups"], facts["classes"], strict=True)
    return [(size, size == 1 and len(names) == 2) for size, names in pairs]


def run_sqlite(statement: str, table: str, columns: dict[str, Array]) -> dict[str, Array]:
    """Return the columns of a statement's result over one table, in SQLite."""
    connection = sqlite3.connect(":memory:")
    try:
        names = [DIALECTS["sqlite"].quoted(name) for name in columns]
        place = DIALECTS["sqlite"].quoted(table)
        connection.execute(f"CREATE TABLE {place} ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        connection.executemany(f"INSERT INTO {place} VALUES ({marks})", rows)
        connection.set_authorizer(_reads_only)
        cursor = connection.execute(statement)
        found = list(zip(*cursor, strict=True))
        heads = [head[0] for head in cursor.description]
        return {
            name: np.array(found[at]) if found else np.zeros(0) for at, name in enumerate(heads)
        }
    finally:
        connection.close()


_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def _reads_only(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
