"""Statistics of categories (CTR): features that CatBoost looks up by a combination of columns.

A projection lists columns of categories, comparisons of numbers with borders, and comparisons of
categories with one. Its key is built from the hashes of the former and the bits of the latter.
Under it `ctr_data` keeps counts, from which each feature of the projection follows in float32:

    value = ((n + prior) / (N + denominator) + shift) · scale

* Borders: n rows of classes beyond the feature's border, of N rows of the key.
* Buckets: n rows of the feature's class, of N.
* BinarizedTargetMeanValue, FloatTargetMeanValue: n is a sum of targets over N rows.
* Counter, FeatureFreq: n rows of the key; N is the same for all keys.

A key that is not there has n = 0, and N = 0 but for counters. The last of all keys is no key, but
how CatBoost marks an empty place of its tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np

from bitvec.converters.catboost.model_json import Document, as_object, items, member, numbers, whole
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.feature_maps.key_tables import Part
from bitvec.core.shape_annotations import Float32, UInt64
from bitvec.errors import FileFormatError, UnsupportedModelError

MULTIPLIER: Final = 0x4906BA494954CB65
"""Multiplier of CatBoost's CalcHash."""
NO_KEY: Final = 2**64 - 1
MOST_COUNTS: Final = 2**31

COUNTERS: Final = ("Counter", "FeatureFreq")
MEANS: Final = ("BinarizedTargetMeanValue", "FloatTargetMeanValue")
TYPES: Final = ("Borders", "Buckets", *MEANS, *COUNTERS)

_CTR: Final = frozenset(
    {
        *("borders", "ctr_type", "elements", "identifier", "prior_numerator", "prior_denomerator"),
        *("scale", "shift", "target_border_idx"),
    }
)
_TABLE: Final = frozenset({"counter_denominator", "hash_map", "hash_stride"})
_CATEGORY: Final = frozenset({"combination_element", "cat_feature_index"})
_BORDER: Final = frozenset({"combination_element", "float_feature_index", "border"})
_EXACT: Final = frozenset({"combination_element", "cat_feature_index", "value"})
_ELEMENTS: Final = {
    "cat_feature_value": (Part.WHOLE, _CATEGORY),
    "float_feature": (Part.GREATER, _BORDER),
    "cat_feature_exact_value": (Part.EQUAL, _EXACT),
}
"""In the order in which a key takes them."""

Element: TypeAlias = tuple[Part, int, float]
"""A part of a key, the number of its feature among those of a kind, what it is compared with."""


@dataclass(frozen=True, slots=True)
class CtrFeature:
    """One feature.

    Parameters
    ----------
    projection : tuple of Element
    identifier : str
        The name of its table in `ctr_data`.
    kind : str
        Of `TYPES`.
    target : int
        The border or the class that it counts.
    prior : float32, (4,)
        Numerator, denominator, shift and scale.
    borders : float32, (n,)
    """

    projection: tuple[Element, ...]
    identifier: str
    kind: str
    target: int
    prior: Float32[Array, " four"]
    borders: Float32[Array, " n"]


def read_ctrs(info: Document) -> list[CtrFeature]:
    """Return the features that `ctrs` lists, in their order.

    Raises
    ------
    UnsupportedModelError
        If one is of a type that is not known.
    FileFormatError
        If they are damaged.
    """
    features = []
    for ctr in items(info, "ctrs"):
        ctr = as_object(ctr, "a feature of `ctrs`", _CTR)
        kind = _type(member(ctr, "ctr_type", str))
        projection = _projection(member(ctr, "elements", list))
        identifier = member(ctr, "identifier", str)
        if _identified(identifier) != (kind, projection):
            raise FileFormatError("the `identifier` of a feature of `ctrs` must say its elements.")
        with np.errstate(over="ignore"):
            borders = numbers(items(ctr, "borders"), "borders").astype(np.float32)
            prior = [ctr.get(f"prior_{name}") for name in ("numerator", "denomerator")]
            rounded = numbers([*prior, ctr.get("shift"), ctr.get("scale")], "prior_numerator")
            prior_shift_scale = rounded.astype(np.float32)
        if np.any(np.diff(borders) < 0) or not np.all(np.isfinite(borders)):
            raise FileFormatError("`borders` must rise and be numbers that float32 can hold.")
        target = whole(ctr, "target_border_idx", MOST_COUNTS)
        features.append(
            CtrFeature(projection, identifier, kind, target, prior_shift_scale, borders)
        )
    return features


def key_tables(
    features: list[CtrFeature], document: Document, columns: Columns
) -> tuple[tuple[KeyTable, ...], list[int]]:
    """Return a table for each projection and set of keys, and each feature's place in φ.

    Parameters
    ----------
    features : list of CtrFeature
    document : JSON object
        The model, whose `ctr_data` holds the counts.
    columns : Columns

    Raises
    ------
    UnsupportedModelError
        If the model was saved without its counts.
    FileFormatError
        If they are damaged.
    """
    if features and document.get("ctr_data") is None:
        raise UnsupportedModelError(
            "a model with statistics of categories (CTR) must hold `ctr_data`, got none: train it "
            "without `final_ctr_computation_mode='Skip'`."
        )
    data = member(document, "ctr_data", dict) if features else {}
    counts = {name: _counts(data, name) for name in {f.identifier: None for f in features}}
    order = sorted(range(len(features)), key=lambda at: _keyed(features[at], counts))
    tables, place = [], [0] * len(features)
    n_before = 0
    for _, group in groupby(order, key=lambda at: _keyed(features[at], counts)):
        members = list(group)
        for value, at in enumerate(members):
            place[at] = n_before + value
        n_before += len(members)
        tables.append(_table([features[at] for at in members], counts, columns))
    return tuple(tables), place


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of X by the numbers of features.

    Parameters
    ----------
    number, category : dict
        The column of a numeric feature, and of a categorical one.
    borders : dict
        Of a numeric feature, what its borders are compared as, by border.
    missing_passes : dict
        Whether NaN exceeds the borders of a numeric feature.
    values : dict
        The categories of a feature that tests know.
    """

    number: dict[int, int]
    category: dict[int, int]
    borders: dict[int, dict[float, float]]
    missing_passes: dict[int, bool]
    values: dict[int, tuple[int, ...]]

    def part(self, element: Element) -> tuple[int, int, float, bool]:
        """Return column, kind, threshold and whether a missing value passes."""
        kind, feature, value = element
        if kind == Part.GREATER:
            known = self.borders.get(feature, {})
            if value in known:
                own = known[value]
                return self.number[feature], int(kind), own, self.missing_passes[feature]
        elif feature in self.category and (kind == Part.WHOLE or value in self.values[feature]):
            return self.category[feature], int(kind), value, False
        raise FileFormatError(
            f"an element of `ctrs` must name a feature and one of its borders or values, got "
            f"feature {feature} and {value!r}."
        )


@dataclass(frozen=True, slots=True)
class _Counts:
    keys: UInt64[Array, " n_keys"]
    counts: Array
    denominator: int


def _keyed(feature: CtrFeature, counts: dict[str, _Counts]) -> tuple[Any, ...]:
    return feature.projection, counts[feature.identifier].keys.tobytes()


def _table(features: list[CtrFeature], counts: dict[str, _Counts], columns: Columns) -> KeyTable:
    parts = [columns.part(element) for element in features[0].projection]
    column, kind, b, missing = zip(*parts, strict=True)
    values = [_values(feature, counts[feature.identifier]) for feature in features]
    return KeyTable(
        np.array(column, np.int32),
        np.array(kind, np.uint8),
        np.array(b, np.float64),
        np.array(missing, bool),
        counts[features[0].identifier].keys,
        np.stack([known for known, _ in values], axis=1),
        np.array([default for _, default in values], np.float32),
    )


def _values(feature: CtrFeature, own: _Counts) -> tuple[Float32[Array, " n_keys"], np.float32]:
    """Return the values of known keys, and that of all others."""
    counts, kind = own.counts, feature.kind
    n_classes = counts.shape[1]
    all_rows: Any = np.float32(0)
    if kind in COUNTERS:
        _require_width(kind, n_classes == 1)
        n, of = counts[:, 0], np.full(len(counts), own.denominator)
        all_rows = np.float32(own.denominator)
    elif kind in MEANS:
        _require_width(kind, n_classes == 2)
        n, of = counts[:, 0], counts[:, 1]
    else:
        _require_width(kind, n_classes >= 2)
        of = counts.sum(axis=1)
        last = n_classes - (kind == "Borders")
        two = kind == "Borders" and n_classes == 2
        target = 0 if two else feature.target
        if target >= last:
            raise FileFormatError(f"`target_border_idx` must lie below {last}, got {target}.")
        n = counts[:, target] if kind == "Buckets" else counts[:, target + 1 :].sum(axis=1)
    if kind not in MEANS and np.any(of >= MOST_COUNTS):
        raise FileFormatError("the counts of a key must add up to less than 2**31.")
    prior, denominator, shift, scale = feature.prior
    with np.errstate(all="ignore"):
        known = (
            (n.astype(np.float32) + prior) / (of.astype(np.float32) + denominator) + shift
        ) * scale
        default = ((np.float32(0) + prior) / (all_rows + denominator) + shift) * scale
    return known, default


def _require_width(kind: str, holds: bool) -> None:
    if not holds:
        raise FileFormatError(f"`hash_stride` of {kind} must fit what it counts.")


def _counts(data: Document, identifier: str) -> _Counts:
    kind, _ = _identified(identifier)
    table = as_object(member(data, identifier, dict), "a table of `ctr_data`", _TABLE)
    width = whole(table, "hash_stride", MOST_COUNTS) - 1
    flat = items(table, "hash_map")
    if width < 1 or len(flat) % (width + 1):
        raise FileFormatError("`hash_map` must hold a key and its counts for each of its entries.")
    texts = flat[:: width + 1]
    if not all(type(key) is str and key.isascii() and key.isdigit() for key in texts):
        raise FileFormatError("the keys of a `hash_map` must be decimals.")
    try:
        keys = np.array([int(key[:40]) for key in texts], np.uint64)
    except OverflowError:
        raise FileFormatError("the keys of a `hash_map` must fit 64 bits.") from None
    columns = [numbers(flat[at :: width + 1], "hash_map") for at in range(1, width + 1)]
    counts = np.stack(columns, axis=1)
    whole_from = int(kind in MEANS)
    is_count = (counts >= 0) & (counts < MOST_COUNTS) & (counts == np.floor(counts))
    if not np.all(is_count[:, whole_from:]):
        raise FileFormatError("`hash_map` must hold counts, which are whole and below 2**31.")
    order = np.argsort(keys)
    order = order[keys[order] != NO_KEY]
    if np.any(keys[order][1:] == keys[order][:-1]):
        raise FileFormatError("the keys of a `hash_map` must differ.")
    denominator = whole(table, "counter_denominator", MOST_COUNTS)
    return _Counts(keys[order], counts[order], denominator)


def _type(kind: Any) -> str:
    if kind not in TYPES:
        raise UnsupportedModelError(
            f"statistics of categories must be among {', '.join(TYPES)}, got {str(kind)[:40]!r}."
        )
    return str(kind)


def _identified(text: str) -> tuple[str, tuple[Element, ...]]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise FileFormatError(
            "the `identifier` of a table must be the text of an object."
        ) from None
    said = as_object(said, "the `identifier` of a table", frozenset({"identifier", "type"}))
    return _type(said.get("type")), _projection(items(said, "identifier"))


def _projection(elements: list[Any]) -> tuple[Element, ...]:
    if not elements:
        raise FileFormatError("a feature of `ctrs` must have elements.")
    return tuple(sorted(map(_element, elements), key=lambda element: element[0]))


def _element(element: Any) -> Element:
    said = element.get("combination_element") if isinstance(element, dict) else None
    if said not in tuple(_ELEMENTS):  # of a damaged file it may be a list
        raise UnsupportedModelError(
            f"an element of `ctrs` must be among {', '.join(_ELEMENTS)}, got {str(said)[:40]!r}."
        )
    kind, allowed = _ELEMENTS[said]
    as_object(element, "an element of `ctrs`", allowed)
    if kind == Part.GREATER:
        with np.errstate(over="ignore"):
            border = float(np.float32(numbers([element.get("border")], "border")[0]))
        return kind, whole(element, "float_feature_index", MOST_COUNTS), border
    feature = whole(element, "cat_feature_index", MOST_COUNTS)
    return kind, feature, 0.0 if kind == Part.WHOLE else float(member(element, "value", int))
