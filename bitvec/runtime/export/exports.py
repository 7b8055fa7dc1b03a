"""Forests as files of other runtimes: ONNX, C, SQL, a page, and the formats of their libraries."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from bitvec.converters.format import Target
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest, require_forest
from bitvec.core.graph.interface import (
    Interface,
    batch_of,
    dtype_of,
    integer_dtype_of,
    is_text,
    outputs_of,
)
from bitvec.core.machine import DecisionMachine
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.files import atomic
from bitvec.runtime.export.onnx_files import OnnxForm, OnnxOptions, page_model
from bitvec.runtime.export.writing import WRITERS, target_of, to_onnx

if TYPE_CHECKING:
    from bitvec.runtime.export.c import Form as CForm
    from bitvec.runtime.export.c import Thresholds
    from bitvec.runtime.predict.torch.hard_forest import HardForest
    from bitvec.runtime.train.relax.module import SoftForest

OPTIONS: Final = {
    "onnx": (
        "form", "target", "version", "leaves", "finite", "outputs", "input_dtype", "integer_dtype",
        "batch", "input",
    ),
    "c": ("form", "name", "thresholds", "finite", "input_dtype", "input"),
    "torch": ("compiled",),
    "executorch": ("batch", "target"),
    "litert": ("batch",),
    "web": ("onnxruntime_web", "title", "tree"),
    "sql": ("dialect", "table", "key", "categories", "outputs", "leaves", "name"),
}  # fmt: skip
"""The options of each target that has any."""

DIRECTORIES: Final = ("web", "triton")
"""Targets that are directories."""
PROGRAMS: Final = ("torch", "executorch", "litert")
"""Targets that run programs of torch.export."""
MODULES: Final = ("HardForest", "SoftForest")
"""Classes of modules that `to_torch` gives."""


def export(
    forest: Forest | DecisionMachine | HardForest | SoftForest | Composition,
    path: str | Path,
    *,
    to: Target | Literal["web", "triton"] | None = None,
    form: OnnxForm | CForm | None = None,
    target: str | None = None,
    version: Literal[3, 5] | None = None,
    leaves: bool = False,
    finite: bool = False,
    outputs: Iterable[str] | None = None,
    input_dtype: Any = None,
    integer_dtype: Any = None,
    batch: int | None = None,
    input: Literal["values", "bins"] | None = None,
    name: str | None = None,
    thresholds: Thresholds | None = None,
    compiled: bool = False,
    onnxruntime_web: str | Path | None = None,
    title: str | None = None,
    tree: int | None = None,
    dialect: Literal["duckdb", "sqlite", "postgres", "spark", "bigquery"] | None = None,
    table: str | None = None,
    key: str | Iterable[str] | None = None,
    categories: Literal["codes", "texts"] | None = None,
) -> Path:
    """Write a forest in another library's or runtime's format and return the path.

    Parameters
    ----------
    forest : Forest, DecisionMachine, or HardForest or SoftForest of `to_torch`
        A decision machine, and a relaxed forest, become ONNX in one form each, with the options
        `outputs`, `input_dtype` and `batch` only, a machine also `leaves`. Modules become programs
        of torch.export (.pt2, .pte, .tflite) with their one answer.
    path : path
        Written aside and renamed, so that it is never half-written.
    to : "onnx", "c", "sql", "torch", "executorch", "litert", "web", "triton" or a library, optional
        By default the one whose files end as the path does: `.onnx`, or `.ort` in onnxruntime's own
        format; `.ubj` or `.json` (xgboost); `.txt` (LightGBM); `.tl` (treelite); `.skops`
        (scikit-learn); `.h` (a C header); `.sql`. There the file predicts bit for bit what the
        forest predicts, SQL as `dialect` says. So do raw scores and leaves of `.pt2`, a program of
        torch.export that returns a dict of answers for any batch, and `.pte` (ExecuTorch) and
        `.tflite` (LiteRT, in float32) of a bounded or fixed one. "web" is a static page that
        predicts in a browser, and "triton" a model folder of NVIDIA's Triton inference server:
        `path` is then a directory, in which an earlier one is replaced and anything else refused.
    form : "tree_ensemble", "traversal", "tensor" or "portable", optional
        Of ONNX. `tree_ensemble` (ai.onnx.ml) is small and fast. The others need standard operators
        only: `traversal` walks the trees, `tensor` is v[argmax(B · σ(Sx − b))], `portable` needs
        no comparisons. By default the first that holds the forest exactly, and runs on the target.
        Of C: "tables", "levels" for trees of depth 8 at most, or "unrolled" for tiny trees.
    target : str, optional
        The runtime of an ONNX file, one of `bitvec.runtime.export.onnx_targets.TARGETS`: it chooses
        form, versions and the float32 of runtimes without float64, and refuses what the runtime
        cannot run. Of .pte: "portable", the kernels if not given, or "xnnpack".
    version : 5 or 3, optional
        Of the operators of `tree_ensemble`, by default 5; it is the only form that version 3 has.
        Version 3 adds in float32, which is faster for forests of classes; raw scores are then
        within rounding, and of a forest of float64 X is float32.
    leaves : bool
        Give an ONNX file an output `leaves` as well, which a certificate compares one by one. It
        costs time at every run, since onnxruntime computes the outputs that nobody asks for too.
    finite : bool
        Promise that no value is ever missing: a file of the form `portable` then has no input
        `present`, and nodes of `traversal`, `tensor` and a C header do not say where one goes.
    outputs : iterable of str, optional
        The only outputs of an ONNX file, among `raw`, `prediction`, `label`, `probabilities` and
        `leaves`, which need not be asked for twice. All if not given.
    input_dtype : numpy dtype, optional
        Of X in an ONNX file: float16, float32 or float64; the forest's if not given. Refused where
        the file would round such rows across a threshold. Of a C header: float32.
    integer_dtype : numpy dtype, optional
        Of the outputs `leaves` and `label` of an ONNX file, where that is a whole number: int64,
        int32 or float32, since some runtimes lack int64; by default int64, and float32 where the
        target has nothing else.
    batch : int, optional
        The number of rows of an ONNX file, where it must not vary; of .tflite, by default 1. Of
        .pte the most rows of a call, by default 1.
    input : "values" or "bins", optional
        What rows hold in an ONNX file or a C header; by default values. Bins are small whole
        numbers, which float16 and int8 hold: the table that makes them is written beside the file,
        as `NAME.bins.json`, for `bitvec.runtime.export.binned_rows.Bins.load`.
    name : str, optional
        The word that all names in a C header, and the columns of a statement of SQL, begin with; by
        default "model".
    thresholds : "exact" or "ranks", optional
        Of a C header: by default "exact"; with ranks a row is binned once, and nodes compare small
        integers. `bitvec.runtime.export.c.to_c` gives the same header with an estimate of its size.
    compiled : bool
        Whether AOTInductor compiles a .pt2 file, for this machine's kind of processor, by a C++
        compiler: `torch._inductor.aoti_load_package` runs it. It may answer faster, and holds code.
    onnxruntime_web : path, optional
        Needed for a page: the npm package onnxruntime-web, unpacked. What the page needs of it is
        copied; nothing is fetched from elsewhere when it runs.
    title : str, optional
        Of a page; by default the source's name of the model.
    tree : int, optional
        The tree whose path a page shows first; by default 0.
    dialect : "duckdb", "sqlite", "postgres", "spark" or "bigquery", optional
        Needed for SQL: one SELECT over a table of rows. Raw scores are the forest's bit for bit
        where the dialect has their dtype: SQLite and BigQuery have no float32, and scores that are
        added in it are within rounding there. Statements are run in DuckDB and SQLite only.
    table : str, optional
        The table or view that SQL reads, with a column for each feature; by default "rows".
    key : str or iterable of str, optional
        Columns of the table that the result of SQL keeps, to tell its rows by.
    categories : "codes" or "texts", optional
        What the table holds in columns of categories; by default "codes".

    Raises
    ------
    UnsupportedModelError
        If the target cannot hold the forest; the message says what and why.
    InputError
        If the path does not end as the target's files do, or options do not go together.

    Notes
    -----
    onnxruntime adds the trees of `tree_ensemble` in an order that depends on its number of threads:
    raw scores equal the forest's bit for bit on one thread (`intra_op_num_threads = 1`), and within
    rounding on several. Those of `tensor` are equal on any number of threads.

    Examples
    --------
    >>> import tempfile
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(stump, f"{folder}/stump.onnx").name
    'stump.onnx'
    """
    if isinstance(forest, Composition):
        raise UnsupportedModelError(
            "ONNX, C, SQL and all other files must hold one sum over trees, got a composition of "
            f"{len(forest.members)} whose answers are combined behind their links: export its "
            "forests, `composition.forests`, or save it with bitvec.save."
        )
    known = type(forest).__name__ in ("DecisionMachine", *MODULES)
    if to in DIRECTORIES or not known:
        require_forest(forest)
    path = Path(path)
    kind: Any = to if to in DIRECTORIES else target_of(path, to)  # type: ignore[arg-type]
    given: dict[str, Any] = {
        "form": form,
        "target": target,
        "version": version,
        "leaves": leaves or None,
        "finite": finite or None,
        "outputs": outputs,
        "input_dtype": input_dtype,
        "integer_dtype": integer_dtype,
        "batch": batch,
        "input": input,
        "name": name,
        "thresholds": thresholds,
        "compiled": compiled or None,
        "onnxruntime_web": onnxruntime_web,
        "title": title,
        "tree": tree,
        "dialect": dialect,
        "table": table,
        "key": key,
        "categories": categories,
    }
    options = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if option not in OPTIONS.get(kind, ()):
            raise InputError(f"`{option}` must be left out where {kind} is written.")
    if kind == "onnx" and type(forest).__name__ != "HardForest":
        dtype = None if input_dtype is None else dtype_of(input_dtype)
        whole = None if integer_dtype is None else integer_dtype_of(integer_dtype)
        interface = Interface(dtype, batch_of(batch), outputs_of(outputs), integer_dtype=whole)
        operators = 5 if version is None else version
        asked = OnnxOptions(
            form,  # type: ignore[arg-type] # of another target: refused there
            target,
            operators,
            leaves,
            finite,
            interface,
            input or "values",
        )
        return _with_bins(forest, to_onnx(forest, path, asked), options)  # type: ignore[arg-type]
    is_program = kind in PROGRAMS
    if not isinstance(forest, Forest) and not (is_program and type(forest).__name__ in MODULES):
        raise InputError(
            f"a {type(forest).__name__} must be exported as {_kinds(forest)}, got `to` = "
            f"{kind!r}: name the file so, or make it a forest first."
        )
    if is_program:
        writer = import_module(f"bitvec.runtime.export.{kind}_programs")
        written: Path = writer.save(forest, path, **options)
        return written
    assert isinstance(forest, Forest)
    if kind == "web":
        return _page(forest, path, **options)
    if kind == "triton":
        from bitvec.runtime.export import triton_folder

        return triton_folder.save(forest, path)
    if kind == "c":
        from bitvec.runtime.export.c import to_c

        return _with_bins(forest, to_c(forest, **options).save(path), options)
    if kind == "sql" and dialect is not None:
        from bitvec.runtime.export.sql import SqlOptions, to_sql

        if key is not None:
            options["key"] = (key,) if isinstance(key, str) else tuple(key)
        text = to_sql(forest, SqlOptions(**options))
        return atomic.write(path, text.encode())
    return WRITERS[kind].write(forest, path)


def _kinds(model: object) -> str:
    """Return the files that a model which is no forest can become, in words."""
    kinds = [".onnx"] * (type(model).__name__ != "HardForest")
    if type(model).__name__ in MODULES:
        kinds += [".pt2", ".pte", ".tflite"]
    return " or ".join(kinds)


def bins_beside(path: Path) -> Path:
    """Return where the table of bins of a file lies."""
    return path.with_suffix(".bins.json")


def _with_bins(forest: Any, path: Path, options: dict[str, Any]) -> Path:
    """Write the table of bins beside a file whose rows hold bins; return the file's path."""
    if options.get("input") == "bins":
        from bitvec.runtime.export.binned_rows import bins_of

        bins_of(forest).save(bins_beside(path))
    return path


def _page(
    forest: Forest,
    directory: Path,
    *,
    onnxruntime_web: str | Path | None = None,
    title: str | None = None,
    tree: int = 0,
) -> Path:
    """Write a static page that predicts with the forest in a browser."""
    from bitvec.runtime.export.web import write

    if onnxruntime_web is None:
        raise InputError(
            "a page must be written with `onnxruntime_web`, got none: run "
            "`npm install onnxruntime-web`, and name node_modules/onnxruntime-web."
        )
    if title is not None and not is_text(title):
        raise InputError(f"`title` must be text that UTF-8 can hold, got {title!a}: give another.")
    try:
        tree = operator.index(tree)
    except TypeError:
        raise InputError(
            f"`tree` must be the number of a tree, got {tree!r}: give a whole number."
        ) from None
    model = page_model(forest)
    return write(forest, model, directory, onnxruntime_web=onnxruntime_web, title=title, tree=tree)
