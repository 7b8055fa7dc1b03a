"""Forests as files of other runtimes: ONNX, C, a page, and the formats of their libraries."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bitvec.converters.formats import Target
from bitvec.core.forest import Forest, require_forest
from bitvec.core.graph.interface import Interface, batch_of, dtype_of, is_text, outputs_of
from bitvec.core.machine import DecisionMachine
from bitvec.errors import InputError
from bitvec.runtime.export.onnx_files import OnnxForm, OnnxOptions, page_model
from bitvec.runtime.export.writing import WRITERS, target_of, to_onnx

if TYPE_CHECKING:
    from bitvec.runtime.export.c import CSource
    from bitvec.runtime.train.relax.module import SoftForest


def export(
    forest: Forest | DecisionMachine | SoftForest,
    path: str | Path,
    *,
    to: Target | None = None,
    form: OnnxForm | None = None,
    target: str | None = None,
    version: Literal[3, 5] = 5,
    leaves: bool = False,
    finite: bool = False,
    outputs: Iterable[str] | None = None,
    input_dtype: Any = None,
    batch: int | None = None,
) -> Path:
    """Write a forest in another library's or runtime's format and return the path.

    Parameters
    ----------
    forest : Forest, DecisionMachine or SoftForest
        A decision machine, and a relaxed forest as `to_torch` gives it, become ONNX in one form
        each, with the options `outputs`, `input_dtype` and `batch` only, a machine also `leaves`.
    path : path
        Written aside and renamed, so that it is never half-written.
    to : "onnx", "xgboost", "lightgbm", "treelite", "sklearn" or "c", optional
        By default the one whose files end as the path does: `.onnx`, or `.ort` in onnxruntime's own
        format; `.ubj` or `.json` (xgboost); `.txt` (LightGBM); `.tl` (treelite); `.skops`
        (scikit-learn); `.h` (a C header, see `to_c`). There the file predicts bit for bit what the
        forest predicts.
    form : "tree_ensemble", "traversal", "tensor" or "portable", optional
        Of ONNX. `tree_ensemble` (ai.onnx.ml) is small and fast. The others need standard operators
        only: `traversal` walks the trees, `tensor` is v[argmax(B · σ(Sx − b))], `portable` needs
        no comparisons. By default the first that holds the forest exactly, and runs on the target.
    target : str, optional
        The runtime of an ONNX file, one of `bitvec.runtime.export.targets.TARGETS`: it chooses
        form, versions and the float32 of runtimes without float64, and refuses what the runtime
        cannot run.
    version : 5 or 3
        Of the operators of `tree_ensemble`, the only form that version 3 has. It adds in float32,
        which is faster for forests of classes; raw scores are then within rounding, and of a forest
        of float64 X is float32.
    leaves : bool
        Give an ONNX file an output `leaves` as well, which a certificate compares one by one. It
        costs time at every run, since onnxruntime computes the outputs that nobody asks for too.
    finite : bool
        Promise that no value is ever missing: a file of the form `portable` then has no input
        `present`.
    outputs : iterable of str, optional
        The only outputs of an ONNX file, among `raw`, `prediction`, `label`, `probabilities` and
        `leaves`, which need not be asked for twice. All if not given.
    input_dtype : numpy dtype, optional
        Of X in an ONNX file: float16, float32 or float64; the forest's if not given. Refused where
        the file would round such rows across a threshold.
    batch : int, optional
        The number of rows of an ONNX file, where it must not vary.

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
    >>> from bitvec.core.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(stump, f"{folder}/stump.onnx").name
    'stump.onnx'
    """
    if not isinstance(forest, DecisionMachine) and type(forest).__name__ != "SoftForest":
        require_forest(forest)
    path = Path(path)
    kind = target_of(path, to)
    dtype = None if input_dtype is None else dtype_of(input_dtype)
    interface = Interface(dtype, batch_of(batch), outputs_of(outputs))
    options = OnnxOptions(form, target, version, leaves, finite, interface)
    if kind == "onnx":
        return to_onnx(forest, path, options)
    if not isinstance(forest, Forest):
        raise InputError(
            f"a {type(forest).__name__} must be exported as ONNX, got `to` = {kind!r}: name the "
            "file .onnx, or make it a forest first."
        )
    if options != OnnxOptions():
        raise InputError(
            "`form`, `target`, `version`, `leaves`, `finite`, `outputs`, `input_dtype` and `batch` "
            f"are of ONNX files, got `to` = {kind!r}: leave them out."
        )
    return WRITERS[kind].write(forest, path)


def to_c(
    forest: Forest,
    *,
    form: Literal["tables", "unrolled"] = "tables",
    name: str = "model",
    thresholds: Literal["exact", "ranks"] = "exact",
) -> CSource:
    """Return a forest as one header of C99, for microcontrollers: no heap, no other file.

    Parameters
    ----------
    form : "tables" or "unrolled"
        Nodes as tables, or as nested if and else for tiny trees.
    name : str
        What all names in the header begin with.
    thresholds : "exact" or "ranks"
        With ranks a row is binned once, and nodes compare small integers.

    Returns
    -------
    CSource
        `text`, `save(path)` and `estimate`: bytes of constants and stack, and comparisons.

    Raises
    ------
    UnsupportedModelError
        If C cannot hold the forest exactly.

    Examples
    --------
    >>> from bitvec.core.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> "model_predict" in to_c(stump).text
    True
    """
    from bitvec.runtime.export.c import to_c as header

    return header(forest, form=form, name=name, thresholds=thresholds)


def export_page(
    forest: Forest,
    directory: str | Path,
    *,
    onnxruntime_web: str | Path,
    title: str | None = None,
    tree: int = 0,
) -> Path:
    """Write a static page that predicts with the forest in a browser, and return its directory.

    Parameters
    ----------
    directory : path
        Written aside and renamed; an earlier page there is replaced, anything else refused.
    onnxruntime_web : path
        The npm package onnxruntime-web, unpacked. What the page needs of it is copied; nothing is
        fetched from elsewhere when it runs.
    title : str, optional
        By default the source's name of the model.
    tree : int
        The tree whose path is shown first.

    Raises
    ------
    UnsupportedModelError
        If the page cannot show the forest.
    InputError
        If the directory holds other files, the package is none, the title no text, or `tree` no
        number of a tree.
    """
    from bitvec.runtime.export.web import write

    require_forest(forest)
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
