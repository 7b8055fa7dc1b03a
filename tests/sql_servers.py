"""PostgreSQL and Spark, where they are installed, as what runs a statement over a table of rows.

Every other missing value is handed over as NULL, the others as NaN.
"""

from __future__ import annotations

import csv
import io
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitvec.core.arrays import Array
from bitvec.runtime.export.sql import DIALECTS
from bitvec.runtime.export.sql.oracle import Run

Engine = tuple[Run, str]
"""What runs statements, and its version."""
PROGRAMS = ("initdb", "pg_ctl", "psql")


def cells(values: Array) -> list[Any]:
    """Return the values of a column, missing ones by turns as None and NaN."""
    return [
        None if isinstance(value, float) and value != value and at % 2 else value
        for at, value in enumerate(values.tolist())
    ]


@contextmanager
def postgres() -> Iterator[Engine]:
    """Start a server of its own in a new folder, which no network reaches."""
    folders = [os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    found = {name: shutil.which(name, path=os.pathsep.join(folders)) for name in PROGRAMS}
    if None in found.values():
        pytest.skip(f"PostgreSQL needs the programs {', '.join(PROGRAMS)}")
    folder = Path(tempfile.mkdtemp(prefix="bitvec-sql-"))
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:  # which the server refuses to run as
        account = pwd.getpwnam("nobody")
        os.chown(folder, account.pw_uid, account.pw_gid)
        owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def call(name: str, *options: str, text: str = "") -> str:
        done = subprocess.run(
            [str(found[name]), *options],
            input=text, capture_output=True, text=True, check=False, cwd=folder, **owner,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    data, login = str(folder / "data"), ("-h", str(folder), "-U", "tester", "-d", "postgres")
    psql = (*login, "-X", "-q", "-v", "ON_ERROR_STOP=1")

    def run(statement: str, table: str, columns: dict[str, Array]) -> dict[str, Array]:
        quoted = DIALECTS["postgres"].quoted
        kinds = {"f": "double precision", "i": "bigint", "O": "text"}
        heads = [f"{quoted(name)} {kinds[part.dtype.kind]}" for name, part in columns.items()]
        rows = zip(*map(cells, columns.values()), strict=True)
        lines = [",".join(map(_cell, row)) for row in rows]
        script = [
            f"CREATE TEMP TABLE {quoted(table)} ({', '.join(heads)});",
            f"COPY {quoted(table)} FROM STDIN (FORMAT csv);", *lines, "\\.",
            f"COPY ({statement.rstrip().removesuffix(';')}) TO STDOUT (FORMAT csv, HEADER);",
        ]  # fmt: skip
        head, *body = csv.reader(io.StringIO(call("psql", *psql, text="\n".join(script) + "\n")))
        parts = zip(*body, strict=True) if body else ([] for _ in head)
        return {name: _column(part) for name, part in zip(head, parts, strict=True)}

    try:
        call("initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        log = str(folder / "log")
        call("pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start")
        try:
            yield run, call("psql", *psql, "-tA", text="SHOW server_version;\n").strip()
        finally:
            call("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f'"{value.replace(chr(34), chr(34) * 2)}"' if isinstance(value, str) else repr(value)


def _column(texts: Any) -> Array:
    try:
        return np.array([float(text or "nan") for text in texts])
    except ValueError:
        return np.array(texts)


@contextmanager
def spark() -> Iterator[Engine]:
    """Start a session of one thread."""
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime")
    from pyspark.sql import types

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    kinds = {"f": types.DoubleType(), "i": types.LongType(), "O": types.StringType()}
    with tempfile.TemporaryDirectory(prefix="bitvec-sql-") as folder:
        builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.warehouse.dir", folder).getOrCreate()

        def run(statement: str, table: str, columns: dict[str, Array]) -> dict[str, Array]:
            fields = [
                types.StructField(name, kinds[part.dtype.kind]) for name, part in columns.items()
            ]
            rows = list(zip(*map(cells, columns.values()), strict=True))
            frame = session.createDataFrame(rows, types.StructType(fields))
            frame.coalesce(1).createOrReplaceTempView(DIALECTS["spark"].quoted(table))
            found = session.sql(statement.rstrip().removesuffix(";"))
            parts = zip(*found.collect(), strict=True) if rows else ([] for _ in found.columns)
            return {name: np.array(part) for name, part in zip(found.columns, parts, strict=True)}

        try:
            yield run, session.version
        finally:
            session.stop()


SERVERS = {"postgres": postgres, "spark": spark}
