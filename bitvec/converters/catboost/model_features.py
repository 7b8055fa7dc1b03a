"""The features of a CatBoost model, and the numbered tests on them that its trees choose from.

CatBoost numbers all borders of all numeric features, then all values of all categorical ones that
are compared one by one, then all borders of statistics (CTR) of categories. A split names its test
by that number, and says once more what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.converters.catboost.ctr_features import COUNTERS, Columns, key_tables, read_ctrs
from bitvec.converters.catboost.model_json import Document, as_object, items, member, numbers, whole
from bitvec.core import float_keys
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.shape_annotations import Bool, Float32, Float64, Int32, Int64
from bitvec.errors import FileFormatError, UnsupportedModelError

MOST_FEATURES: Final = 2**20
"""A feature's column lies below this, or below a few times the number of features listed."""

_INFO: Final = frozenset(
    {
        "float_features",
        "categorical_features",
        "cat_features_hash",
        "ctrs",
        "text_features",
        "embedding_features",
    }
)
_POSITION: Final = frozenset({"feature_id", "feature_name", "feature_index", "flat_feature_index"})
_FLOAT: Final = _POSITION | {"borders", "has_nans", "nan_value_treatment"}
_CATEGORICAL: Final = _POSITION | {"values", "string_values"}
_HASH: Final = frozenset({"hash", "value"})
_FLOAT_SPLIT: Final = frozenset({"split_type", "split_index", "float_feature_index", "border"})
_ONE_HOT_SPLIT: Final = frozenset({"split_type", "split_index", "cat_feature_index", "value"})

_CTR_SPLIT: Final = frozenset({"split_type", "split_index", "ctr_target_border_idx", "border"})

_SPLITS: Final = {
    "FloatFeature": (_FLOAT_SPLIT, "float_feature_index", "border"),
    "OneHotFeature": (_ONE_HOT_SPLIT, "cat_feature_index", "value"),
    "OnlineCtr": (_CTR_SPLIT, "ctr_target_border_idx", "border"),
}
"""The members of splits of each kind, that of their feature and that of what they compare with."""

_NAN_RIGHT: Final = {"AsIs": False, "AsFalse": False, "AsTrue": True}


@dataclass(frozen=True, slots=True)
class Features:
    """Columns of a model.

    Parameters
    ----------
    n_features : int
    names : tuple of str, optional
        None where no feature has a name.
    column : int32, (n_tests,)
        The column of X that each numbered test reads; from `n_features` on, one of `tables`.
    border : float32, (n_tests,)
        What it compares with; 0 where it compares categories.
    is_category : bool, (n_tests,)
    missing_right : bool, (n_tests,)
        Whether NaN passes the test, which a row does that goes right.
    value : int64, (n_tests,)
        The hash of the category that passes; 0 for a border.
    hashes : dict
        By column, the hashes of the categories that tests know, in order.
    categorical : tuple of int
        The columns of categories, whether tests know any of theirs or not.
    texts : dict
        By signed hash, the category's text, as far as the model keeps texts.
    meaning : tuple
        What a split says of itself: the kind, the feature's index (of statistics, the border of the
        target), and the border or hash.
    tables : tuple of KeyTable
        Statistics of categories. Where there are some, X is float64, holds the hashes of categories
        and is compared with what `wide` makes of a border.
    counts_targets : bool
        Whether some of these depend on the label.
    """

    n_features: int
    names: tuple[str, ...] | None
    column: Int32[Array, " n_tests"]
    border: Float32[Array, " n_tests"]
    is_category: Bool[Array, " n_tests"]
    missing_right: Bool[Array, " n_tests"]
    value: Int64[Array, " n_tests"]
    hashes: dict[int, tuple[int, ...]]
    categorical: tuple[int, ...]
    texts: dict[int, str]
    meaning: tuple[tuple[str, int, float], ...]
    tables: tuple[KeyTable, ...]
    counts_targets: bool

    def test_of(self, split: Any) -> int:
        """Return the number of the test that a split names."""
        kind = split.get("split_type") if isinstance(split, dict) else None
        if kind not in tuple(_SPLITS):  # of a damaged file it may be a list
            raise UnsupportedModelError(
                f"a split must be of a kind among {', '.join(_SPLITS)}, got {str(kind)[:40]!r}: "
                "such features cannot be converted."
            )
        allowed, named, compared = _SPLITS[kind]
        as_object(split, "a split", allowed)
        number = whole(split, "split_index", len(self.meaning))
        feature, value = split.get(named), split.get(compared)
        if compared == "border":
            with np.errstate(over="ignore"):
                value = float(np.float32(numbers([value], "border")[0]))
        if self.meaning[number] != (kind, feature, value):
            raise FileFormatError(
                f"the split of number {number} must say what its features say, which is "
                f"{self.meaning[number]}, got {(kind, feature, value)}."
            )
        return number


def read_features(document: Document) -> Features:
    """Read `features_info`.

    Raises
    ------
    UnsupportedModelError
        If the trees use texts, embeddings, or statistics of categories that are not known.
    FileFormatError
        If it is damaged.
    """
    info = as_object(member(document, "features_info", dict), "`features_info`", _INFO)
    floats = [as_object(f, "a float feature", _FLOAT) for f in items(info, "float_features")]
    categories = [
        as_object(f, "a categorical feature", _CATEGORICAL)
        for f in items(info, "categorical_features")
    ]
    _refuse_others(info)
    listed = [*floats, *categories]
    limit = max(MOST_FEATURES, 4 * len(listed))
    flat = [whole(feature, "flat_feature_index", limit) for feature in listed]
    for kind in (floats, categories):
        index = [whole(feature, "feature_index", limit) for feature in kind]
        if len(set(index)) < len(index):
            raise FileFormatError("`feature_index` must differ between features of a kind.")
    if len(set(flat)) < len(flat):
        raise FileFormatError("`flat_feature_index` must differ between features.")
    n_features = max(flat, default=-1) + 1
    borders = [_borders(feature) for feature in floats]
    hashes = [_hashes(feature) for feature in categories]
    nan_right = [_nan_right(feature) for feature in floats]
    ctrs = read_ctrs(info)
    index = [feature["feature_index"] for feature in listed]
    numeric, categorical = slice(None, len(floats)), slice(len(floats), None)
    columns = Columns(
        number=dict(zip(index[numeric], flat[numeric], strict=True)),
        category=dict(zip(index[categorical], flat[categorical], strict=True)),
        borders={
            at: dict(zip(own.tolist(), wide(own).tolist(), strict=True))
            for at, own in zip(index[numeric], borders, strict=True)
        },
        missing_passes=dict(zip(index[numeric], nan_right, strict=True)),
        values=dict(zip(index[categorical], hashes, strict=True)),
    )
    tables, place = key_tables(ctrs, document, columns)
    n_each = [*map(len, borders), *map(len, hashes), *(ctr.borders.size for ctr in ctrs)]
    count = np.array(n_each, np.int64)
    n_borders, n_hashes = sum(map(len, borders)), sum(map(len, hashes))
    number = np.arange(int(count.sum()))
    is_category = (number >= n_borders) & (number < n_borders + n_hashes)
    all_hashes = [value for values in hashes for value in values]
    meaning = (
        [
            ("FloatFeature", feature["feature_index"], value)
            for feature, values in zip(floats, borders, strict=True)
            for value in values.tolist()
        ]
        + [
            ("OneHotFeature", feature["feature_index"], value)
            for feature, values in zip(categories, hashes, strict=True)
            for value in values
        ]
        + [("OnlineCtr", ctr.target, value) for ctr in ctrs for value in ctr.borders.tolist()]
    )
    n_ctr_borders = number.size - n_borders - n_hashes
    return Features(
        n_features=n_features,
        names=_names(listed, flat, n_features),
        column=np.repeat(np.array([*flat, *(n_features + at for at in place)], np.int32), count),
        border=np.concatenate(
            [*borders, np.zeros(n_hashes, np.float32), *(ctr.borders for ctr in ctrs)],
            dtype=np.float32,
        )
        if count.size
        else np.zeros(0, np.float32),
        is_category=is_category,
        missing_right=np.repeat(
            np.array(nan_right + [False] * (count.size - len(floats)), bool), count
        ),
        value=np.pad(np.array(all_hashes, np.int64), (n_borders, n_ctr_borders)),
        hashes=dict(zip(flat[len(floats) :], hashes, strict=True)),
        categorical=tuple(flat[len(floats) :]),
        texts=_texts(info),
        meaning=tuple(meaning),
        tables=tables,
        counts_targets=any(ctr.kind not in COUNTERS for ctr in ctrs),
    )


def _refuse_others(info: Document) -> None:
    for kind in ("text_features", "embedding_features"):
        if items(info, kind):
            raise UnsupportedModelError(
                f"a model must read numbers and categories only, got `{kind}`: they are turned "
                "into numbers by calculations that a forest cannot hold."
            )


def wide(border: Float32[Array, " n"]) -> Float64[Array, " n"]:
    """Return the greatest float64 that no float32 beyond the border is nearest to.

    So x > wide(border) holds for a float64 if and only if float32(x) > border.
    """
    above = float_keys.first_cast_to(float_keys.keys(border) + 1, border.dtype)
    return float_keys.floats(above - 1, float_keys.FLOAT64)


def _borders(feature: Document) -> Float32[Array, " n"]:
    with np.errstate(over="ignore"):
        borders = numbers(items(feature, "borders"), "borders").astype(np.float32)
    if np.any(np.diff(borders) < 0) or not np.all(np.isfinite(borders)):
        raise FileFormatError("`borders` must rise and be numbers that float32 can hold.")
    return borders


def _nan_right(feature: Document) -> bool:
    treatment = member(feature, "nan_value_treatment", str)
    if treatment not in _NAN_RIGHT:
        raise UnsupportedModelError(
            f"`nan_value_treatment` must be one of {', '.join(_NAN_RIGHT)}, got {treatment[:40]!r}."
        )
    # Without NaN in training CatBoost compares it as it is, and nothing exceeds a border less.
    return member(feature, "has_nans", bool) and _NAN_RIGHT[treatment]


def _hashes(feature: Document) -> tuple[int, ...]:
    values = items(feature, "values")
    if not all(type(value) is int and -(2**31) <= value < 2**31 for value in values):
        raise FileFormatError("`values` of a categorical feature must be signed 32-bit hashes.")
    if len(set(values)) < len(values):
        raise FileFormatError("`values` of a categorical feature must be distinct.")
    return tuple(values)


def _texts(info: Document) -> dict[int, str]:
    texts = {}
    for entry in items(info, "cat_features_hash"):
        entry = as_object(entry, "an entry of `cat_features_hash`", _HASH)
        unsigned = whole(entry, "hash", 2**32)
        texts[unsigned - 2**32 if unsigned >= 2**31 else unsigned] = member(entry, "value", str)
    return texts


def _names(listed: list[Document], flat: list[int], n_features: int) -> tuple[str, ...] | None:
    """Return the columns' names; one that has none bears its number, as CatBoost says it."""
    names = [str(column) for column in range(n_features)]
    for feature, column in zip(listed, flat, strict=True):
        name = feature.get("feature_name") or feature.get("feature_id") or str(column)
        if not isinstance(name, str):
            raise FileFormatError(f"a feature's name must be a text, got {type(name).__name__}.")
        names[column] = name
    unnamed = all(name == str(column) for column, name in enumerate(names))
    if not unnamed and len(set(names)) < n_features:
        raise FileFormatError("feature names must be distinct, got one twice.")
    return None if unnamed else tuple(names)
