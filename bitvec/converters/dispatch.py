"""Choice of a converter for a model or a file: no library is imported to choose.

A source model's file is asked in a child process; see `bitvec.verify.workers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bitvec.converters.attribute_records import Record
from bitvec.converters.catboost import format as catboost
from bitvec.converters.compositions import format as compositions
from bitvec.converters.format import Content, Format, require_inherited
from bitvec.converters.lightgbm import format as lightgbm
from bitvec.converters.native import format as native
from bitvec.converters.onnx import format as onnx
from bitvec.converters.pipelines import format as pipelines
from bitvec.converters.sklearn import format as sklearn
from bitvec.converters.torch_program import format as torch_program
from bitvec.converters.treelite import format as treelite
from bitvec.converters.xgboost import format as xgboost
from bitvec.converters.ydf import format as ydf
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError
from bitvec.files import load_converted
from bitvec.files.sound import sound
from bitvec.verify import workers
from bitvec.verify.oracle import Oracle

FORMATS: Final = (
    *pipelines.FORMATS,
    *compositions.FORMATS,
    *sklearn.FORMATS,
    *xgboost.FORMATS,
    *lightgbm.FORMATS,
    *catboost.FORMATS,
    *treelite.FORMATS,
    *onnx.FORMATS,
    *ydf.FORMATS,
    *native.FORMATS,
)
"""In the order in which a file's content is asked about: the surest signatures first."""


def is_path(model: Any) -> bool:
    """Return whether `model` names a file."""
    return isinstance(model, str | Path)


def is_forest_file(path: str | Path) -> bool:
    """Return whether a file is what `bitvec.save` writes, by its content."""
    return _is_forest(Content.of(Path(path)))


def format_of(model: Any) -> Format:
    """Return the format of a model object, by its class, or of a path, by the file's content.

    Raises
    ------
    UnsupportedModelError
        If no converter handles it, or its class answers in its own way.
    InputError
        If there is no such file, or it is empty.
    """
    if is_path(model):
        return _format_of_content(Content.of(Path(model)))
    is_record, cls = isinstance(model, Record), type(model)
    for base in [None] if is_record else cls.__mro__:
        module = model.module if base is None else base.__module__
        for candidate in (*FORMATS, torch_program.FORMAT):
            known = any(f"{module}.".startswith(f"{name}.") for name in candidate.packages)
            if known and (candidate.holds is None or candidate.holds(model)):
                if base is not None:
                    require_inherited(cls, base)
                return candidate
    names = ", ".join(f.name for f in FORMATS if f.packages)
    raise UnsupportedModelError(
        f"a model must come from one of {names}, got an object of class "
        f"{type(model).__module__}.{type(model).__qualname__}."
    )


def _format_of_content(content: Content) -> Format:
    path = content.path
    if _is_pickle(content):
        raise UnsupportedModelError(
            f"{path} is a pickle, which is never loaded because it can run code: load it yourself "
            "where you trust it, and pass the model object to bitvec.convert, or save it with "
            "skops.io.dump(model, 'model.skops')."
        )
    for candidate in (*FORMATS, torch_program.FORMAT):
        if candidate.recognises is not None and candidate.recognises(content):
            return candidate
    if _is_compressed(content):
        raise UnsupportedModelError(
            f"{path} must be a model file, got a compressed file: decompress it first, unless it "
            "is a joblib file, which is a pickle and never loaded; pass the model object instead."
        )
    if content.is_zip and not content.members:
        raise FileFormatError(
            f"{path} must be whole, got a damaged zip archive (a .skops file?): copy it again."
        )
    for candidate in FORMATS:
        for recognises, what in candidate.mistaken:
            if recognises(content):
                raise UnsupportedModelError(f"{path} must be a model file, got {what}.")
    known = "; ".join(f"{f.name}, {f.made_by}" for f in FORMATS if f.made_by)
    begins = "a directory" if path.is_dir() else f"a file that begins with {content.head[:8]!r}"
    raise UnsupportedModelError(
        f"{path} must be a forest saved by bitvec, or a model file ({known}), got {begins}."
    )


def convert(model: Any, *, dtypes: Any = None, allow_rounding: bool = False) -> Forest | Any:
    """Convert a trained model, or the file of one, into a Forest that predicts exactly as it does.

    An ensemble that combines forests behind their links (soft voting, calibration, bagging of
    forests, a transformed target) becomes a `bitvec.core.composition.Composition`, the `Any` of the
    signature: who converts a forest need not tell a type checker so.

    Parameters
    ----------
    model : object or path
        A fitted scikit-learn, xgboost, LightGBM, CatBoost or YDF model, a treelite Model, an ONNX
        tree ensemble, a native tree of the papers, or an estimator of this package, whose `forest_`
        it is; or the path of a file of one of them, or of a saved forest. A file is recognised by
        its content, whatever its name is.
    dtypes : str, dtype or mapping, optional
        Of the columns of numbers that a scikit-learn pipeline is handed, on which its arithmetic
        depends: "float64" (if not given; it stands for whole numbers too) or "float32", or
        `X.dtypes` of a data frame.
    allow_rounding : bool
        Whether a pipeline's PCA or TruncatedSVD, behind scalers, becomes a feature map: its sums
        are rounded in another order, so that rows within rounding of a threshold may exit
        elsewhere. By default it is refused.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be represented exactly.
    FileFormatError
        If the file is damaged.
    InputError
        If `dtypes` are given of a model that does not compute with its columns, or of a forest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    Forest(1 tree, 2 nodes, 3 leaves, 4 features -> 3 outputs, float32, from sklearn)
    """
    if not is_path(model):
        forest: Forest | Composition = _reader(format_of(model), dtypes, allow_rounding)(model)
        return forest
    with sound(model, "be a sound model file"):
        if not is_forest_file(model):
            forest = _reader(format_of(model), dtypes, allow_rounding)(model)
            return forest
        if dtypes is not None:
            raise InputError(
                f"`dtypes` must be left out but for a scikit-learn pipeline, got {dtypes!r} of the "
                f"saved forest {model}: it is of the dtypes that it was converted for."
            )
        return load_converted(model)


def convert_forest(model: Any, *, dtypes: Any = None, allow_rounding: bool = False) -> Forest:
    """Convert what becomes one forest.

    Raises
    ------
    UnsupportedModelError
        As `convert`; if it is a composition of several forests.
    """
    found = convert(model, dtypes=dtypes, allow_rounding=allow_rounding)
    if isinstance(found, Composition):
        raise UnsupportedModelError(
            f"a model must be one forest here, got a {found.kind}, which combines "
            f"{len(found.members)} behind their links: take one of its members, "
            "`composition.forests`."
        )
    return found


def _reader(
    source: Format, dtypes: Any, allow_rounding: bool
) -> Callable[[Any], Forest | Composition]:
    """Return the conversion of a format, with dtypes where it takes them."""
    read: Callable[..., Forest | Composition] = source.module("read").convert
    if allow_rounding and source in pipelines.FORMATS:
        read = partial(read, allow_rounding=True)
    if dtypes is None:
        return read
    if not source.takes_dtypes:
        raise InputError(
            f"`dtypes` must be left out but for a scikit-learn pipeline, got {dtypes!r} of a model "
            f"of {source.name}: its trees read their columns as they are."
        )
    return partial(read, dtypes=dtypes)


def oracle_of(model: Any) -> Oracle:
    """Return what a forest is compared with, of a model object, or of a file in a child process."""
    if not is_path(model):
        return loaded_oracle(model)
    source = format_of(model)
    result: Oracle = workers.opened(
        model, source.name, __name__, "loaded_oracle", unneeded=source.unneeded
    )
    return result


def loaded_oracle(model: Any) -> Oracle:
    """Return what a forest is compared with, in this process, which may open a file for it."""
    result: Oracle = format_of(model).module("oracle").oracle_of(model)
    # A frame cannot be handed to a file's own process.
    return replace(result, of_frame=None) if is_path(model) else result


def _is_forest(content: Content) -> bool:
    """Return whether this is safetensors: the length of a JSON header in 8 bytes, then it."""
    return len(content.head) > 8 and content.head[8:9] == b"{" and content.head[7:8] == b"\0"


def _is_pickle(content: Content) -> bool:
    """Return whether this is a pickle, also within a zip archive or written by joblib or torch."""
    head = content.head
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= 5:
        return True
    if any(name.endswith(".pkl") for name in content.members):
        return True
    return re.match(rb"(\(dp|\(lp|\(i|c)[\w.]+\n", head) is not None


def _is_compressed(content: Content) -> bool:
    """Return whether this is gzip, bzip2, xz, zlib (joblib's own choice) or zstandard."""
    head = content.head
    zlib = head[:1] == b"x" and len(head) > 1 and int.from_bytes(head[:2]) % 31 == 0
    return zlib or head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"))
