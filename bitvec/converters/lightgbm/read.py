"""Convert LightGBM's models, from text files or from the library's own objects.

Texts are read without the library; an object is written to a text in memory and read the same way.

* A node goes left where x <= threshold in float64. LightGBM reads every |x| <= 1e-35 of a dense
  matrix as 0; thresholds in that range are moved so that the outcome is the same for every x.
* A missing type None reads NaN as 0, which is a direction of NaN fixed by the threshold; Zero
  counts NaN and |x| <= 1e-35 as missing.
* At a split on categories a value is truncated toward zero; a code of the set goes left, and every
  other code, a negative value and NaN go right.
* A raw score is summed in float64 from 0.0, tree by tree. A random forest divides the sum by its
  iterations; `raw_score=True` leaves that out in LightGBM, but not here.
* A Booster or wrapper stops at its `best_iteration`; a file holds the trees that it was saved with.

Two things that LightGBM does to rows are outside of a forest: an integer matrix is rounded to
float32, and in a scipy sparse matrix |x| <= 1e-35 is kept. On arm64 its compiler may fuse the
multiplication and addition of linear leaves.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bitvec.converters.lightgbm.categories import code_books
from bitvec.converters.lightgbm.model_text import ModelText, integer
from bitvec.converters.lightgbm.objective_links import Link, link_of
from bitvec.converters.lightgbm.open import Opened, open_model
from bitvec.converters.lightgbm.trees import read_trees
from bitvec.converters.naming import naming
from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation, axis_aligned
from bitvec.core.output import Aggregate, Output, SoftmaxSum
from bitvec.core.source import Source
from bitvec.core.structure import arrange
from bitvec.errors import FileFormatError, UnsupportedModelError

MOST_OUTPUTS: Final = 2**16
"""More outputs than this must be borne out by as many trees before anything is allocated."""


def convert(model: Any) -> Forest:
    """Convert a LightGBM model.

    Parameters
    ----------
    model : path, Booster, or scikit-learn wrapper
        A text file of LightGBM 2.x to 4.x, a Booster, or a fitted LGBMClassifier, LGBMRegressor,
        LGBMRanker or the like. A file needs no lightgbm.

    Returns
    -------
    Forest
        float64; raw scores equal `Booster.predict(raw_score=True)` bit for bit, divided by the
        number of iterations for a random forest. A classification objective gives a classifier,
        unless the wrapper is a regressor.

    Raises
    ------
    UnsupportedModelError
        For an objective, header line or tree line whose meaning is not known.
    FileFormatError, InvalidForestError
        If the text is damaged or is no LightGBM model.

    Examples
    --------
    >>> forest = convert("model.txt")  # doctest: +SKIP
    """
    opened = open_model(model)
    with naming(opened.name):
        return forest_of(opened)


def forest_of(opened: Opened) -> Forest:
    """Convert an opened model."""
    text = opened.text
    n_features, n_outputs = sizes_of(text)
    link = link_of(text.header.get("objective"), n_outputs)
    trees = read_trees(text.trees, n_features)
    n_trees = trees.n_leaves.size
    bitvectors, order = arrange(trees.left, trees.right, trees.roots)
    if order.node.size < trees.left.size:
        raise FileFormatError("each node must hang from the root of its tree, got a cycle.")
    node, leaf = order.node, ~order.leaf
    tree_of_leaf = np.repeat(np.arange(n_trees), trees.n_leaves)
    set_count = trees.set_count[node]
    first_word = (np.cumsum(trees.set_count) - trees.set_count)[node]
    averages = "average_output" in text.header
    books, open_books = code_books(text, n_features)
    n_iterations = n_trees // n_outputs
    return Forest(
        tests=axis_aligned(
            trees.feature[node],
            trees.threshold[node],
            relation=Relation.GREATER,
            missing_right=trees.missing_right[node],
            missing_rule=np.where(
                trees.missing_is_zero[node], MissingRule.NAN_OR_ZERO, MissingRule.NAN
            ),
            kind=np.where(trees.is_set[node], Kind.SET, Kind.MARGIN),
            code_rule=np.where(trees.is_set[node], CodeRule.TRUNCATE, CodeRule.EXACT),
            other_right=trees.is_set[node],
            set_ptr=np.concatenate([[0], np.cumsum(set_count)]).astype(np.int64),
            set_words=trees.set_words[ranges(first_word, set_count)],
        ),
        bitvectors=bitvectors,
        leaves=Leaves(
            trees.v[:, None],
            None if n_outputs == 1 else (tree_of_leaf % n_outputs).astype(np.int32),
            trees.linear,
        ).take(leaf),
        output=Output(
            n_outputs=n_outputs,
            dtype=np.dtype(np.float64),
            aggregate=Aggregate.MEAN if averages else Aggregate.SUM,
            post_transform=link.post_transform,
            parameter=link.parameter,
            classes=_classes(opened, link, n_outputs),
            iteration=(np.arange(n_trees) // n_outputs).astype(np.int32),
            divisor=np.full(n_outputs, float(max(n_iterations, 1))) if averages else None,
            softmax_sum=SoftmaxSum.IN_ORDER_C,
        ),
        inputs=Inputs(n_features, _feature_names(text, n_features), books),
        source=Source(
            "lightgbm",
            text.header["version"],
            text.header.get("objective", "custom"),
            leaf_id=leaf - trees.leaf_ptr[:-1][tree_of_leaf],
            node_id=node - np.repeat(trees.node_ptr[:-1], trees.n_leaves - 1),
            leaf_cover=None if trees.leaf_count is None else trees.leaf_count[leaf],
            node_cover=None if trees.node_count is None else trees.node_count[node],
            gain=None if trees.gain is None else trees.gain[node],
            metadata={
                **{k: v for k, v in text.header.items() if k != "tree_sizes"},
                "parameters": list(text.parameters),
                **open_books,
            },
        ),
    )


def sizes_of(text: ModelText) -> tuple[int, int]:
    """Return the number of features and of outputs."""
    n_features = integer(text.header, "max_feature_idx") + 1
    n_outputs = integer({"num_tree_per_iteration": "1"} | text.header, "num_tree_per_iteration")
    n_classes = integer(text.header, "num_class")
    n_trees = len(text.trees)
    if n_outputs < 1 or n_outputs != n_classes:
        raise FileFormatError(
            f"a model must grow one tree per class in each iteration, got {n_outputs} for "
            f"{n_classes} classes."
        )
    if n_trees % n_outputs or n_outputs > max(MOST_OUTPUTS, n_trees):
        raise FileFormatError(
            f"a model of {n_outputs} trees an iteration must have whole iterations, got {n_trees}."
        )
    for name in ("feature_names", "feature_infos"):
        got = len(text.header.get(name, "").split(" "))
        if got != n_features:
            raise FileFormatError(f"`{name}` must have {n_features} entries, got {got}.")
    return n_features, n_outputs


def _feature_names(text: ModelText, n_features: int) -> tuple[str, ...] | None:
    """Return the names, or None for those that LightGBM gives to an array without any."""
    names = tuple(text.header["feature_names"].split(" "))
    unnamed = names == tuple(f"Column_{column}" for column in range(n_features))
    if not unnamed and len(set(names)) < n_features:
        raise FileFormatError("`feature_names` must be distinct, got one twice.")
    return None if unnamed else names


def _classes(opened: Opened, link: Link, n_outputs: int) -> tuple[Array, ...] | None:
    if opened.wrapped:
        if opened.labels is not None and np.size(opened.labels) < 2:
            raise UnsupportedModelError(
                "a classifier must be fitted to two classes or more, got one: LightGBM answers "
                "with probabilities of two, of which it knows no name for the other; convert "
                "`model.booster_`."
            )
        return None if opened.labels is None else (np.asarray(opened.labels),)
    return (np.arange(max(2, n_outputs)),) if link.classifies else None
