"""Convert CatBoost's models, from JSON files, binary files or the library's own objects.

* A row passes a test, and goes right, where float32(x) > border, or where its category is the
  test's. NaN passes the borders of a feature that had NaN in training under `nan_mode='Max'`, and
  no other; CatBoost answers NaN in every numeric column.
* Leaves are float64. A raw score is the sum of leaves from 0.0, tree by tree, whatever the number
  of rows; then it is multiplied by the scale and the bias is added.
* Decimals of a JSON file are read as the nearest number, which is what the model held that wrote
  it. CatBoost's own reader of JSON is off by up to 2 ulp, and takes whole numbers beyond 2**53
  for 0.
* Statistics of categories (CTR) are looked up in the key tables of a feature map. X then holds the
  hash of each category, for which float32 is too narrow: X is float64, and a border moves to where
  the nearest float32 exceeds it.
* Labels come from raw scores. A class that was absent from training has the raw score -inf.
* A file, and a plain CatBoost, answers by its loss: with labels for a loss of classification, and
  exponentiated for Poisson and Tweedie. A forest has one link for all outputs: of
  RMSEWithUncertainty, both outputs stay raw scores, whereas CatBoostRegressor returns exp(2x) of
  the second.

Softmax and exponentials in CatBoost go through an approximation that is off by up to about 1 + |x|
ulp, where the forest rounds correctly. On arm64 its compiler may fuse the multiplication by a scale
and the addition of a bias.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from bitvec.converters.catboost.categories import Column, columns_of
from bitvec.converters.catboost.ctr_features import MULTIPLIER
from bitvec.converters.catboost.loss_functions import Answer, answer_of, loss_name, may_have_targets
from bitvec.converters.catboost.model_features import Features, read_features, wide
from bitvec.converters.catboost.model_json import Document, member, numbers
from bitvec.converters.catboost.open import Opened, open_model
from bitvec.converters.catboost.trees import read_trees
from bitvec.converters.category_sets import pack
from bitvec.converters.naming import naming
from bitvec.core.arrays import Array
from bitvec.core.city_hash import category_hash
from bitvec.core.feature_maps import Concatenate, Identity, KeyTables
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, NodeTests, axis_aligned
from bitvec.core.output import Output, SoftmaxSum
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors, arrange
from bitvec.errors import FileFormatError, UnsupportedModelError

MOST_VALUES: Final = 2**28
"""Values of leaves, absent classes included."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A forest and what it was made of."""

    forest: Forest
    columns: dict[int, Column]
    categorical: tuple[int, ...]
    v: Float64[Array, "n_leaves dimension"]
    """The leaves of the file, tree by tree from left to right."""
    answer: Answer
    scale: float
    bias: Float64[Array, " dimension"]


def convert(model: Any, *, categories: Iterable[str | int] = ()) -> Forest:
    """Convert a CatBoost model.

    Parameters
    ----------
    model : path, or fitted CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker
        A JSON file (`save_model(path, format="json")`) needs no catboost, a binary file does.
    categories : texts or whole numbers, optional
        Categories that occur in any column. A model keeps hashes only, unless it was saved with
        `pool=`; the forest's code books then hold hashes where the texts are not known, by
        which the texts of a table are found all the same. Whole numbers below 2**16 are always
        recognised.

    Returns
    -------
    Forest
        Compares in float32, or in float64 what statistics of categories (CTR) stand beside; sums in
        float64; raw scores equal
        `predict(prediction_type="RawFormulaVal")` bit for bit.

    Raises
    ------
    UnsupportedModelError
        For text or embedding features, a loss that is not known, or an unknown member.
    FileFormatError, InvalidForestError
        If the file is damaged or is no CatBoost model.
    MissingLibraryError
        If a binary file is given and catboost is not installed.

    Examples
    --------
    >>> forest = convert("model.json")  # doctest: +SKIP
    """
    opened = open_model(model)
    with naming(opened.name):
        return convert_opened(opened, categories).forest


def convert_opened(opened: Opened, categories: Iterable[str | int] = ()) -> Converted:
    """Return the forest of an opened model, and what it was made of."""
    document = opened.document
    info = member(document, "model_info", dict)
    features = read_features(document)
    given = {category_hash(text): str(text) for text in categories}
    features = replace(features, texts={**given, **features.texts})
    trees = read_trees(document, opened.nested, features)
    dimension = trees.v.shape[1]
    answer = answer_of(info, dimension, labels=opened.labels)
    if features.counts_targets and may_have_targets(info, dimension):
        raise UnsupportedModelError(
            "statistics of categories (CTR) must be of one target, or count rows only, got a model "
            f"of {str(loss_name(info))[:80]!r}: CatBoost's JSON does not tell of which target they "
            "are. Train it with simple_ctr='Counter' and combinations_ctr='Counter', or a model "
            "for each target."
        )
    scale, bias = _scale_and_bias(document, dimension)
    if trees.v.shape[0] * answer.n_outputs > MOST_VALUES:
        raise UnsupportedModelError(
            f"leaves must have at most {MOST_VALUES} values, got {trees.v.shape[0]} leaves of "
            f"{answer.n_outputs}."
        )
    bitvectors, order = arrange(trees.left, trees.right, trees.roots)
    leaf = ~order.leaf
    v = trees.v[leaf]
    columns = {} if features.tables else columns_of(features)
    whole = tuple(sorted(at for at, column in columns.items() if column.book is None))
    base = np.full(answer.n_outputs, -np.inf)
    base[list(answer.output)] = bias
    cover = None if trees.weight is None else trees.weight[leaf]
    forest = Forest(
        tests=_tests(features, columns, trees.test[order.node]),
        bitvectors=bitvectors,
        leaves=Leaves(spread(v, answer)),
        output=Output(
            n_outputs=answer.n_outputs,
            dtype=np.dtype(np.float64),
            base_score=base,
            scale=None if scale == 1 else np.full(answer.n_outputs, scale),
            post_transform=answer.post_transform,
            classes=answer.classes,
            groups=answer.groups,
            iteration=np.arange(bitvectors.n_trees, dtype=np.int32),
            labels_from_raw=answer.classes is not None,
            boundary=None if answer.classes is None else answer.boundary,
            softmax_sum=SoftmaxSum.IN_ORDER_TABLE,
        ),
        inputs=Inputs(
            features.n_features,
            features.names,
            _books(features, columns),
            hashed=tuple(sorted(at for at, column in columns.items() if column.hashed)),
            whole_numbers=whole,
            decimals=whole,
            category_hashes=features.categorical if features.tables else (),
        ),
        source=Source(
            "catboost",
            _version(info),
            loss_name(info) or "",
            leaf_id=_leaf_ids(opened, bitvectors, v),
            leaf_cover=cover,
            node_cover=None if cover is None else _node_cover(bitvectors, cover),
            metadata={
                "categories": {
                    str(column): list(hashes)
                    for column, hashes in features.hashes.items()
                    if hashes
                },
                "params": info.get("params"),
                **_monotone(info.get("params"), features.n_features),
            },
        ),
        feature_map=_feature_map(features),
    )
    return Converted(forest, columns, features.categorical, v, answer, scale, bias)


def _monotone(params: Any, n_features: int) -> dict[str, Any]:
    """Return the directions of all columns that a model was trained with, where one has any."""
    options = params.get("tree_learner_options") if isinstance(params, dict) else None
    found = options.get("monotone_constraints") if isinstance(options, dict) else None
    if not isinstance(found, dict) or not found:
        return {}
    return {"monotone_constraints": [found.get(str(at), 0) for at in range(n_features)]}


def _tests(
    features: Features, columns: dict[int, Column], test: Int64[Array, " n_nodes"]
) -> NodeTests:
    column, is_category = features.column[test], features.is_category[test]
    if features.tables:
        of_x = np.where(features.is_category, features.value, wide(features.border))
        b = np.where(features.column < features.n_features, of_x, features.border)[test]
        missing = features.missing_right[test]
        kind = np.where(is_category, Kind.EQUAL, Kind.MARGIN)
        return axis_aligned(column, b, missing_right=missing, kind=kind)
    codes = [
        columns[at].codes[value] if categorical else ()
        for at, value, categorical in zip(
            features.column.tolist(),
            features.value.tolist(),
            features.is_category.tolist(),
            strict=True,
        )
    ]
    equal = np.array([float(c[0]) if c else 0.0 for c in codes], np.float32)
    several = np.array([len(c) > 1 for c in codes], bool)[test]
    at = np.flatnonzero(several)
    sets = [codes[number] for number in test[at]]
    set_ptr, set_words = pack(
        np.array([code for right in sets for code in right], np.int64),
        np.repeat(at, [len(right) for right in sets]).astype(np.int64),
        test.size,
    )
    return axis_aligned(
        column,
        np.where(is_category, equal[test], features.border[test]).astype(np.float32),
        missing_right=features.missing_right[test],
        kind=np.where(several, Kind.SET, np.where(is_category, Kind.EQUAL, Kind.MARGIN)),
        set_ptr=set_ptr,
        set_words=set_words,
    )


def _feature_map(features: Features) -> Concatenate | None:
    if not features.tables:
        return None
    n = features.n_features
    return Concatenate((Identity(n), KeyTables(n, features.tables, MULTIPLIER)))


def spread(
    v: Float64[Array, "n_leaves dimension"], answer: Answer
) -> Float64[Array, "n_leaves n_outputs"]:
    """Return leaves with a value for each output, 0 for absent classes."""
    wide = np.zeros((v.shape[0], answer.n_outputs))
    wide[:, list(answer.output)] = v
    return wide


def _scale_and_bias(document: Document, dimension: int) -> tuple[float, Float64[Array, " n"]]:
    none = np.zeros(dimension)
    if "scale_and_bias" not in document:
        return 1.0, none
    pair = member(document, "scale_and_bias", list)
    if len(pair) != 2:
        raise FileFormatError(f"`scale_and_bias` must hold 2 members, got {len(pair)}.")
    scale = float(numbers(pair[:1], "scale_and_bias")[0])
    if scale == 0:
        raise UnsupportedModelError("the scale of a model must not be 0: it undoes its trees.")
    bias = [] if pair[1] is None else pair[1]
    bias = numbers(bias if isinstance(bias, list) else [bias], "scale_and_bias")
    if bias.size not in (0, dimension):
        raise FileFormatError(f"the bias must have {dimension} values, got {bias.size}.")
    return scale, bias if bias.size else none


def _books(
    features: Features, columns: dict[int, Column]
) -> tuple[tuple[str | int | float | bool, ...] | None, ...] | None:
    # A column of categories that no test reads still may hold texts.
    unread = dict.fromkeys(set(features.categorical) - columns.keys(), Column((), {}))
    columns = {} if features.tables else {**columns, **unread}
    if all(column.book is None for column in columns.values()):
        return None
    numeric = Column(None, {})
    return tuple(columns.get(at, numeric).book for at in range(features.n_features))


def _node_cover(B: Bitvectors, cover: Float64[Array, " n_leaves"]) -> Float64[Array, " n_nodes"]:
    below = np.concatenate([[0.0], np.cumsum(cover)])
    first = B.leaf_ptr[:-1][B.tree_of_node]
    total: Array = below[first + B.hi] - below[first + B.lo]
    return total


def _leaf_ids(
    opened: Opened, B: Bitvectors, v: Float64[Array, "n_leaves dimension"]
) -> Int64[Array, " n_leaves"] | None:
    """Return the numbers by which `calc_leaf_indexes` calls the leaves.

    A model read from JSON numbers them from left to right, and so does an oblivious tree. Other
    trees of an object keep the order in which they grew.
    """
    plain = np.arange(B.n_leaves) - np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    grown = opened.grown
    if grown is None:
        return plain
    if grown.steps is None or grown.named is None:
        return plain if np.array_equal(grown.leaf_values.reshape(v.shape), v) else None
    try:
        return _grown_ids(grown.steps, grown.named)
    except (ValueError, IndexError) as error:
        raise FileFormatError(f"the leaves must be numbered by their trees ({error}).") from error


def _grown_ids(steps: list[Array], named: list[Array]) -> Int64[Array, " n_leaves"]:
    """Return the ids of leaves from left to right.

    A step to the left or right child is 0 where that child is a leaf, which the node itself names.
    """
    start = np.cumsum([0, *map(len, steps)])
    step = np.concatenate(steps)
    at = np.arange(len(step))
    both = np.all(step == 0, axis=1)
    left, right = (
        np.where(both, -1, np.where(side == 0, ~at, at + side)) for side in (step[:, 0], step[:, 1])
    )
    order = arrange(left, right, start[:-1])[1]
    names: Array = np.concatenate(named)
    return names[np.where(order.leaf < 0, ~order.leaf, order.leaf)]


def _version(info: Document) -> str:
    """Return the version from the tag of the build, as far as it is named."""
    text = info.get("catboost_version_info")
    _, _, tag = text.partition("CatBoost release ") if isinstance(text, str) else ("", "", "")
    return tag.split(maxsplit=1)[0].rstrip(".") if tag.strip() else "unknown"
