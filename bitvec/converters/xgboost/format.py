"""xgboost: files, objects, and the options that convert exactly."""

from __future__ import annotations

import struct
from typing import Final

from bitvec.converters.format import Content, Format

_UBJSON_LENGTHS: Final = b"iUIulmLM"


def is_xgboost(content: Content) -> bool:
    """Return whether this is JSON or UBJSON with a `learner`, or the old binary format."""
    if _is_model(content.head) or spark_prefix(content.head):
        return True
    if content.first_key in ("learner", "version"):
        return True
    return content.first_key is not None and content.holds(b'"learner"', b'"gradient_booster"')


def spark_prefix(head: bytes) -> int:
    """Return how many bytes stand before the model in a file of xgboost4j-spark.

    A classifier of it writes the number of classes first, in 4 bytes, the highest one first.
    """
    size = struct.calcsize(">i")
    return size if head[:2] == b"\0\0" and not _is_model(head) and _is_model(head[size:]) else 0


def _is_model(head: bytes) -> bool:
    json_keys = (b'{"learner"', b'{"version"')
    return _is_ubjson(head) or is_xgboost_binary(head) or head.startswith(json_keys)


def _is_ubjson(head: bytes) -> bool:
    return len(head) > 1 and head[:1] == b"{" and head[1] in _UBJSON_LENGTHS + b"$#"


def is_xgboost_binary(head: bytes) -> bool:
    """Return whether a file begins so: a magic word, or 136 bytes, a length and an objective."""
    if head.startswith(b"binf"):
        return True
    if len(head) <= 144:
        return False
    (size,) = struct.unpack_from("<Q", head, 136)
    name = head[144 : 144 + size]
    return 0 < size <= 64 and len(name) == size and name.isascii() and b":" in name


FORMATS: Final = (
    Format(
        name="xgboost",
        folder="xgboost",
        packages=("xgboost",),
        recognises=is_xgboost,
        made_by="model.save_model(path)",
        supported=(
            "gbtree",
            "dart",
            "multi_output_tree",
            "categories one-hot",
            "categories by partition",
            "num_parallel_tree",
            "best_iteration",
            "iteration range",
            "base_score scalar",
            "base_score vector",
            "base_score estimated",
            "feature names and types",
            "NaN",
            "JSON file",
            "UBJ file",
            "legacy binary file",
            "reg:squarederror",
            "reg:squaredlogerror",
            "reg:pseudohubererror",
            "reg:absoluteerror",
            "reg:quantileerror",
            "reg:logistic",
            "reg:gamma",
            "reg:tweedie",
            "count:poisson",
            "binary:logistic",
            "binary:logitraw",
            "binary:hinge",
            "multi:softprob",
            "multi:softmax",
            "rank:pairwise",
            "rank:ndcg",
            "rank:map",
            "survival:cox",
            "survival:aft",
        ),
        unsupported=(
            ("gblinear", "it has no trees"),
            ("an objective that is not listed", "its link is not known"),
        ),
        writes="xgboost",
        unneeded=("sklearn",),
    ),
)
