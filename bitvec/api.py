"""The verbs of the package: each joins a converter, the core and an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitvec import files
from bitvec.arrays import ArrayLike
from bitvec.certificates import Certificate, compare
from bitvec.dispatch import converter, format_of, is_forest_file, is_path
from bitvec.errors import FileFormatError, InputError
from bitvec.exported import renumbered
from bitvec.forest import Forest, require_forest
from bitvec.formats import Target
from bitvec.runtime.predictor import compile as compile
from bitvec.subject import Subject
from bitvec.writing import WRITERS, OnnxForm, target_of, to_onnx

if TYPE_CHECKING:
    from bitvec.runtime.torch.module import SoftForest


def convert(model: Any) -> Forest:
    """Lift a trained model, or the file of one, into a Forest that predicts exactly as it does.

    Parameters
    ----------
    model : object or path
        A fitted scikit-learn, xgboost, LightGBM, CatBoost or YDF model, a treelite Model, an ONNX
        tree ensemble, a native tree of the papers; or the path of a file of one of them, or of a
        saved forest. A file is recognised by its content, whatever its name is.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be represented exactly.
    FileFormatError
        If the file is damaged.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    Forest(1 tree, 2 nodes, 3 leaves, 4 features -> 3 outputs, float32, from sklearn)
    """
    if is_path(model) and is_forest_file(model):
        return files.load(model)
    forest: Forest = converter(model).convert(model)
    return forest


def subject(model: Any) -> Subject:
    """Return what a forest is compared with: a source model, its file, or an exported file.

    An ONNX file that bitvec exported answers through its own outputs; one of another exporter is a
    source model.
    """
    if isinstance(model, Subject):
        return model
    if is_path(model) and format_of(model).name == "ONNX":
        from bitvec.runtime.onnx.session import subject as onnx_subject

        try:
            return onnx_subject(model)
        except FileFormatError:
            pass
    result: Subject = converter(model).subject(model)
    return result


def certify(
    forest: Forest,
    model: Any,
    X: ArrayLike | None = None,
    *,
    exported: bool | None = None,
    engine: str = "auto",
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Certificate:
    """Compare a forest with its source, or with what it was exported to, and certify the result.

    Rows are built for each node from the box of its path, so that a tie, one ulp to each side, NaN,
    infinities, signed zeros and every kind of category code really reach it.

    Parameters
    ----------
    forest : Forest
    model : object, path or Subject
        The model that the forest was lifted from, its file, or a file that it was exported to.
    X : (batch, n_features), optional
        Rows to compare on as well.
    exported : bool, optional
        Whether `model` is what the forest was exported to, which may number leaves anew; by
        default it is where it comes from another library than the forest.
    engine : str
        The engine that answers for the forest.
    seed : int
        Of the values in columns that a path leaves open.
    progress : callable, optional
        Called with the fraction done.

    Returns
    -------
    Certificate
        `passed` says whether no leaf, raw score or prediction differs and every reachable node was
        seen on every outcome; `summary()` and `save(path)` say the rest.

    Raises
    ------
    InputError
        If X or the model does not fit the forest: another number of trees, features or outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> certify(convert(model), model, X).passed
    True
    """
    require_forest(forest)
    # The subject says which rows it accepts; what the source refuses beside is no question here.
    predictor = compile(replace(forest, source=None), engine=engine)
    other = subject(model)
    if exported is None:
        # What answers for "onnx" is "onnxruntime".
        exported = forest.source is None or not other.name.startswith(forest.source.library)
    if exported and not isinstance(model, Subject):
        other = renumbered(forest, other, lambda: convert(model))
    rows = None if X is None else predictor.rows(X)
    return compare(
        forest,
        exits=predictor.engine.exit_leaves,
        raw=predictor.engine.raw,
        scores=predictor.scores,
        predict=predictor.predict,
        subject=other,
        X=rows,
        seed=seed,
        progress=progress,
    )


def to_torch(
    forest: Forest,
    relaxation: str = "sigmoid",
    *,
    movable: Iterable[str] = ("S", "b", "v"),
    gamma: float = 1.0,
    dtype: Any = None,
) -> SoftForest:
    """Relax a forest into a torch module whose parameters are its arrays.

    Parameters
    ----------
    relaxation : str
        "sigmoid" (path products), "softmax", "softmax_ternary", "sparsemax", "sparsemax_ternary" or
        "index_sparsemax": each tends to the hard forest as gamma rises.
    movable : names among "S", "b", "v", "r", "base_score"
        What may move; all else comes back from `from_torch` bit for bit. While S may not move,
        axis-aligned tests stay axis-aligned.
    gamma : float
        Steepness, in units of each node's margin standard deviation once `calibrate(X)` has
        measured it, else of the margin itself.
    dtype : torch.dtype, optional
        Of the parameters; torch.float32 if not given.

    Returns
    -------
    SoftForest
        Calling it on rows returns raw scores, (batch, n_outputs), differentiable in its parameters.

    Raises
    ------
    UnsupportedModelError
        If the forest cannot be relaxed.
    MissingLibraryError
        If torch is not installed.

    Examples
    --------
    >>> from bitvec.forest import from_matrices
    >>> soft = to_torch(from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    >>> soft([[0.5, 9.0]]).tolist()
    [[15.0]]
    """
    from bitvec.runtime.torch.module import SoftForest

    relax = SoftForest.from_forest
    if dtype is not None:
        relax = partial(relax, dtype=dtype)
    return relax(forest, relaxation, movable=movable, gamma=gamma)


def export(
    forest: Forest,
    path: str | Path,
    *,
    to: Target | None = None,
    form: OnnxForm | None = None,
    leaves: bool = False,
) -> Path:
    """Write a forest in another library's or runtime's format and return the path.

    Parameters
    ----------
    path : path
        Written aside and renamed, so that it is never half-written.
    to : "onnx", "xgboost", "lightgbm", "treelite" or "sklearn", optional
        By default the one whose files end as the path does: `.onnx`; `.ubj` or `.json` (xgboost);
        `.txt` (LightGBM); `.tl` (treelite); `.skops` (scikit-learn). There the file predicts bit
        for bit what the forest predicts.
    form : "tree_ensemble" or "tensor", optional
        Of ONNX. `tree_ensemble` (ai.onnx.ml) is small and fast; `tensor` needs standard operators
        only and holds every kind of node. By default the first that holds the forest exactly.
    leaves : bool
        Give an ONNX file an output `leaves` as well, which a certificate compares one by one. It
        costs time at every run, since onnxruntime computes the outputs that nobody asks for too.

    Raises
    ------
    UnsupportedModelError
        If the target cannot hold the forest; the message says what and why.
    InputError
        If the path does not end as the target's files do.

    Notes
    -----
    onnxruntime adds the trees of `tree_ensemble` in an order that depends on its number of threads:
    raw scores equal the forest's bit for bit on one thread (`intra_op_num_threads = 1`), and within
    rounding on several. Those of `tensor` are equal on any number of threads.

    Examples
    --------
    >>> import tempfile
    >>> from bitvec.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(stump, f"{folder}/stump.onnx").name
    'stump.onnx'
    """
    require_forest(forest)
    path = Path(path)
    target = target_of(path, to)
    if form not in (None, "tree_ensemble", "tensor"):
        raise InputError(f'`form` must be "tree_ensemble" or "tensor", got {form!r}.')
    if target == "onnx":
        return to_onnx(forest, path, form, leaves)
    if form is not None or leaves:
        raise InputError(f"`form` and `leaves` are of ONNX files, got `to` = {target!r}.")
    return WRITERS[target].write(forest, path)
