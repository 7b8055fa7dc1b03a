"""Statistics of categories (CTR) as CatBoost's own JSON export states them, for proofs.

One table for each feature, in the order of `ctrs`; its values are computed key by key.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np

from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables

_PARTS = {"cat_feature_value": 0, "float_feature": 1, "cat_feature_exact_value": 2}
_EMPTY = str(2**64 - 1)


def exceeds(border: float) -> float:
    """Return the greatest float64 whose nearest float32 does not exceed a border of float32."""
    low = np.float64(border)
    with np.errstate(over="ignore"):
        high = np.float64(np.nextafter(np.float32(border), np.float32(np.inf)))
        if np.isinf(high):
            high = np.finfo(np.float64).max
        while True:
            middle = low + (high - low) / 2
            if middle in (low, high):
                return float(low)
            if np.float32(middle) > np.float32(border):
                high = middle
            else:
                low = middle


def stated_map(document: dict[str, Any], n_features: int) -> Concatenate | None:
    """Return x, and beside it the value of each feature of `ctrs`; None without any."""
    info = document["features_info"]
    if not info.get("ctrs"):
        return None
    multiplier = 0x4906BA494954CB65
    tables = tuple(_table(ctr, document) for ctr in info["ctrs"])
    return Concatenate((Identity(n_features), KeyTables(n_features, tables, multiplier)))


def feature_of(document: dict[str, Any], split: dict[str, Any]) -> int:
    """Return which feature of `ctrs` the split of a tree asks."""
    info = document["features_info"]
    before = sum(len(feature["borders"]) for feature in info.get("float_features") or ())
    before += sum(len(f.get("values") or ()) for f in info.get("categorical_features") or ())
    ends = list(accumulate(len(ctr["borders"]) for ctr in info["ctrs"]))
    return bisect_right(ends, split["split_index"] - before)


def _table(ctr: dict[str, Any], document: dict[str, Any]) -> KeyTable:
    parts = [_part(element, document["features_info"]) for element in ctr["elements"]]
    held = document["ctr_data"][ctr["identifier"]]
    stride, flat = held["hash_stride"], held["hash_map"]
    counts = {
        int(flat[at]): flat[at + 1 : at + stride]
        for at in range(0, len(flat), stride)
        if flat[at] != _EMPTY
    }
    rising = sorted(counts)
    denominator = held["counter_denominator"]
    values = [_value(ctr, *_fraction(ctr, counts[key], denominator)) for key in rising]
    none = 0, denominator if ctr["ctr_type"] in ("Counter", "FeatureFreq") else 0
    column, kind, b, missing = zip(*parts, strict=True)
    return KeyTable(
        np.array(column, np.int32),
        np.array(kind, np.uint8),
        np.array(b, np.float64),
        np.array(missing, bool),
        np.array(rising, np.uint64),
        np.array(values, np.float32).reshape(-1, 1),
        np.array([_value(ctr, *none)], np.float32),
    )


def _part(element: dict[str, Any], info: dict[str, Any]) -> tuple[int, int, float, bool]:
    kind = _PARTS[element["combination_element"]]
    name, index = (
        ("float_features", "float_feature_index")
        if kind == 1
        else ("categorical_features", "cat_feature_index")
    )
    feature = next(f for f in info[name] if f["feature_index"] == element[index])
    column = feature["flat_feature_index"]
    if kind == 1:
        passes = feature["has_nans"] and feature["nan_value_treatment"] == "AsTrue"
        return column, kind, exceeds(element["border"]), passes
    return column, kind, float(element["value"]) if kind == 2 else 0.0, False


def _fraction(ctr: dict[str, Any], counts: list[Any], denominator: int) -> tuple[Any, Any]:
    kind, target = ctr["ctr_type"], ctr["target_border_idx"]
    if kind in ("Counter", "FeatureFreq"):
        return counts[0], denominator
    if kind in ("BinarizedTargetMeanValue", "FloatTargetMeanValue"):
        return counts[0], counts[1]
    if kind == "Buckets":
        return counts[target], sum(counts)
    return (counts[1] if len(counts) == 2 else sum(counts[target + 1 :])), sum(counts)


def _value(ctr: dict[str, Any], n: Any, of: Any) -> Any:
    prior, denominator, shift, scale = (
        np.float32(ctr[name]) for name in ("prior_numerator", "prior_denomerator", "shift", "scale")
    )
    with np.errstate(all="ignore"):
        return ((np.float32(n) + prior) / (np.float32(of) + denominator) + shift) * scale
