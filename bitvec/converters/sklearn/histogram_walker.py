"""HistGradientBoosting's own trees, from the node records and sets of its predictors.

As `_predict_one_from_raw_data` of scikit-learn's `_hist_gradient_boosting/_predictor.pyx` walks
them, behind the model's encoder: x goes left where it is at most the threshold or its category is
in the set. A category that no tree knows, and what is no category, goes where a missing value goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.sklearn.walked_positions import boosting, joined
from bitvec.core.arrays import Array
from bitvec.core.node_tests import Kind, axis_aligned
from bitvec.core.output import SoftmaxSum
from bitvec.core.shape_annotations import Bool, Int64, UInt32
from bitvec.verify.source_trees import SourceTrees


def binned(model: Any) -> SourceTrees:
    """Return the trees of a model, as tests of the columns that it was fitted on."""
    predictors = [predictor for stage in model._predictors for predictor in stage]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    size = np.array([len(predictor.nodes) for predictor in predictors])
    inner = nodes["is_leaf"] == 0
    at = nodes[inner]
    is_set, right = at["is_categorical"] != 0, at["missing_go_to_left"] == 0
    column = np.arange(model.n_features_in_)
    if model._preprocessor is not None:  # it puts columns of categories first
        column = np.argsort(~model.is_categorical_, kind="stable")
    tables = [predictor.raw_left_cat_bitsets for predictor in predictors]
    first = np.repeat(np.cumsum([0, *map(len, tables)])[:-1], size)[inner]
    left = np.zeros((len(at), 8), np.uint32)
    left[is_set] = np.concatenate(tables)[(first + at["bitset_idx"])[is_set]]
    set_ptr, set_words = _sets(model, np.where(is_set, at["feature_idx"], -1), left, right)
    tests = axis_aligned(
        column[at["feature_idx"]],
        at["num_threshold"],
        kind=np.where(is_set, Kind.SET, Kind.MARGIN),
        missing_right=right,
        other_right=right & is_set,
        set_ptr=set_ptr,
        set_words=set_words,
    )
    return joined(
        model,
        size,
        inner,
        tests,
        (nodes["left"], nodes["right"]),
        nodes["value"][:, None],
        row_dtype=np.float64,
        n_outputs=len(model._predictors[0]),
        softmax_sum=SoftmaxSum.IN_ORDER,
        **boosting(model, 0.0 + model._baseline_prediction[0]),
    )


def _sets(
    model: Any,
    place: Int64[Array, " n_nodes"],
    left: UInt32[Array, "n_nodes 8"],
    missing_right: Bool[Array, " n_nodes"],
) -> tuple[Int64[Array, " n_nodes_plus_1"], UInt32[Array, " n_words"]]:
    """Return the codes that go right at nodes that read an encoded column; -1 reads none.

    `left` are the sets of encoded categories that go left. Whole numbers are their own codes; the
    code of a text or boolean is its place among the categories.
    """
    if model._preprocessor is None:
        return np.zeros(len(place) + 1, np.int64), np.zeros(0, np.uint32)
    known, row = model._bin_mapper.make_known_categories_bitsets()
    codes: list[list[int]] = []
    for book in model._preprocessor.named_transformers_["encoder"].categories_:
        items = [item for item in book.tolist() if item == item]  # NaN is no category
        named = any(isinstance(item, (str, bool)) for item in items)
        codes.append([k if named else int(item) for k, item in enumerate(items)])
    n_words = np.array([*(max(part, default=0) // 32 + 1 for part in codes), 0])
    set_ptr = np.concatenate([[0], np.cumsum(n_words[place])])
    words = np.repeat(np.where(missing_right, ~np.uint32(0), np.uint32(0)), np.diff(set_ptr))
    for column, part in enumerate(codes):
        node = np.flatnonzero(place == column)
        for k, code in enumerate(part):
            word, bit = k // 32, np.uint32(1 << k % 32)
            if known[row[column], word] & bit:
                to, out = set_ptr[node] + code // 32, np.uint32(1 << code % 32)
                words[to] = np.where(left[node, word] & bit, words[to] & ~out, words[to] | out)
    return set_ptr, words
