"""Conversion of xgboost's gbtree and dart models, from files or from the library's own objects.

Files are read without the library: JSON by the standard module, UBJSON by `converters.ubjson`, the
old binary format by `legacy`. An object is saved to memory in UBJSON and read the same way.

* A node goes left where x < split_condition in float32, so right is `>=`; a missing value follows
  `default_left`.
* A raw score is summed in float32: the margin of `base_score` first, then the trees in order, a
  dart tree's leaf times its weight rounded before it is added (as `Booster.predict` on a DMatrix
  does; `inplace_predict`, and so the scikit-learn wrappers, round dart differently).
* A scikit-learn wrapper, and a file that a wrapper saved, stops at `best_iteration`; a Booster uses
  all trees.
* A value x >= 0 at a split on categories is the code floor(x), which goes right if it is in the
  node's set. The codes of a data frame's categories are their places in the training frame, which
  models of xgboost 3.1 and later keep as code books. A frame's category that was not trained on is
  refused here, since xgboost 3.1 and 3.2 take it for the next greater one that was, and refuse it
  where there is none; `Inputs.refuses_unseen` of the forest can be replaced. Before 3.1 xgboost
  numbers the categories of each frame anew, so that models of these versions take codes only.
* A wrapper's `missing` counts as missing besides NaN. The files that it saves do not hold it, so
  for xgboost as for this module they know NaN only.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from bitvec.converters.naming import naming
from bitvec.converters.xgboost.categories import code_books
from bitvec.converters.xgboost.document import (
    Document,
    float32s,
    integer,
    integers,
    member,
    numbers,
    plain,
    require_known,
)
from bitvec.converters.xgboost.objectives import (
    Objective,
    base_margin,
    objective_named,
    require_each_apart,
)
from bitvec.converters.xgboost.open import Opened, open_model
from bitvec.converters.xgboost.trees import read_trees
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation, axis_aligned
from bitvec.core.output import Output
from bitvec.core.source import Source
from bitvec.core.structure import arrange
from bitvec.errors import FileFormatError, UnsupportedModelError

MOST_FEATURES: Final = 2**31 - 1
NEWEST_MAJOR: Final = 3
_LEARNER: Final = frozenset(
    {
        "attributes",
        "feature_names",
        "feature_types",
        "gradient_booster",
        "learner_model_param",
        "objective",
    }
)
_MODEL: Final = frozenset(
    {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees", "weight_drop"}
)
MOST_OUTPUTS: Final = 2**16
"""More outputs than this must be borne out by as many trees before anything is allocated."""


def convert(model: Any) -> Forest:
    """Convert an xgboost model.

    Parameters
    ----------
    model : path, Booster, or scikit-learn wrapper
        A file in JSON, UBJSON or the old binary format (told apart by content), a Booster, or a
        fitted XGBClassifier, XGBRegressor, XGBRFClassifier, XGBRFRegressor, XGBRanker or the like.
        A file needs no xgboost.

    Returns
    -------
    Forest
        float32; raw scores equal `Booster.predict(DMatrix, output_margin=True)` bit for bit. A
        classification objective gives a classifier, unless the wrapper is a regressor. A model
        trained by a custom objective has the links of the objective that xgboost saves for it.

    Raises
    ------
    UnsupportedModelError
        For gblinear, or an objective whose links are not known.
    FileFormatError, InvalidForestError
        If the file is damaged or is no xgboost model.

    Examples
    --------
    >>> forest = convert("model.ubj")  # doctest: +SKIP
    """
    opened = open_model(model)
    with naming(opened.name):
        return _forest(opened)


def _forest(opened: Opened) -> Forest:
    learner = opened.learner
    objective = objective_named(member(member(learner, "objective", dict), "name", str))
    model, weights = booster_of(learner)
    n_features, n_outputs = sizes_of(learner, model)
    version = _version(opened.document)
    if n_outputs > 1:
        require_each_apart(member(member(learner, "objective", dict), "name", str), version)
    n_trees, iteration = used_iterations(opened, model, n_outputs)
    trees = read_trees(member(model, "trees", list)[:n_trees], n_features, n_outputs)
    group = integers(model.get("tree_info"), "tree_info", 0, n_outputs)[:n_trees]
    bitvectors, order = arrange(trees.left, trees.right, trees.roots)
    node, leaf = order.node, order.leaf
    set_ptr, set_words = trees.sets(node)
    has_sentinel = not np.isnan(opened.missing)
    score = _base_score(learner, n_outputs)
    base = base_margin(objective, score, version)
    parameters = member(learner, "learner_model_param", dict)
    estimated = integer(parameters, "boost_from_average", default=0) != 0
    if not n_trees and estimated and not np.array_equal(base, score):
        raise UnsupportedModelError(
            "a model must have trees, or a base_score that was set: without either, xgboost takes "
            "the default base_score for a margin, though the objective has a link."
        )
    books = code_books(model, n_features)
    output = None
    if n_outputs > 1 and trees.v.shape[1] == 1:
        output = np.repeat(group, np.diff(bitvectors.leaf_ptr)).astype(np.int32)
    return Forest(
        tests=axis_aligned(
            trees.feature[node],
            trees.threshold[node],
            relation=Relation.GREATER_EQUAL,
            missing_right=~trees.default_left[node],
            missing_rule=MissingRule.NAN_OR_SENTINEL if has_sentinel else MissingRule.NAN,
            kind=np.where(trees.is_set[node], Kind.SET, Kind.MARGIN),
            code_rule=CodeRule.FLOOR,
            set_ptr=set_ptr,
            set_words=set_words,
        ),
        bitvectors=bitvectors,
        leaves=Leaves(trees.v[leaf], output),
        output=Output(
            n_outputs=n_outputs,
            dtype=np.dtype(np.float32),
            base_score=base,
            base_first=True,
            tree_weight=None if weights is None else weights[:n_trees],
            post_transform=objective.post_transform,
            classes=classes_of(opened, objective, n_outputs),
            groups=_groups(learner, n_outputs),
            iteration=iteration,
            labels_from_raw=objective.labels_from_raw,
        ),
        inputs=Inputs(
            n_features,
            _feature_names(learner),
            books,
            missing_sentinel=opened.missing if has_sentinel else None,
            absent_is_missing=True,
            refuses_unseen=books is not None,
        ),
        source=Source(
            "xgboost",
            ".".join(map(str, version)),
            member(member(learner, "objective", dict), "name", str),
            leaf_id=trees.node_id(leaf),
            node_id=trees.node_id(node),
            leaf_cover=None if trees.cover is None else trees.cover[leaf],
            node_cover=None if trees.cover is None else trees.cover[node],
            gain=None if trees.gain is None else trees.gain[node],
            metadata=_metadata(opened.document) | _monotone(opened, n_features),
        ),
    )


def booster_of(learner: Document) -> tuple[Document, Array | None]:
    """Return the `model` of a gbtree, and the weights of its trees if some were dropped.

    A dart holds the weights beside its gbtree; since 3.3 a gbtree holds them itself, and since 3.4
    its model does.
    """
    require_known(learner, _LEARNER, "the learner")
    booster = member(learner, "gradient_booster", dict)
    name = member(booster, "name", str)
    weights = booster.get("weight_drop")
    if name == "dart":
        booster = member(booster, "gbtree", dict)
    elif name != "gbtree":
        raise UnsupportedModelError(
            f"the booster must be gbtree or dart, got {name[:80]!r}: a linear booster has no trees."
        )
    model = member(booster, "model", dict)
    require_known(model, _MODEL, "the model")
    if "weight_drop" in model:
        if weights is not None:
            raise FileFormatError("a model must hold `weight_drop` once, got it twice.")
        weights = model["weight_drop"]
    if weights is not None or name == "dart":
        weights = float32s(weights, "weight_drop")
    n_trees = len(member(model, "trees", list))
    stated = integer(member(model, "gbtree_model_param", dict), "num_trees")
    if stated != n_trees or (weights is not None and weights.size != n_trees):
        raise FileFormatError(f"a model must hold as many trees as it states, got {n_trees}.")
    if len(numbers(model.get("tree_info"), "tree_info")) != n_trees:
        raise FileFormatError(f"`tree_info` must have {n_trees} values, one for each tree.")
    return model, weights


def sizes_of(learner: Document, model: Document) -> tuple[int, int]:
    """Return the number of features and of outputs."""
    parameters = member(learner, "learner_model_param", dict)
    n_features = integer(parameters, "num_feature")
    n_outputs = max(
        1, integer(parameters, "num_class"), integer(parameters, "num_target", default=1)
    )
    if n_features > MOST_FEATURES:
        raise FileFormatError(f"`num_feature` must be at most {MOST_FEATURES}, got {n_features}.")
    if n_outputs > max(MOST_OUTPUTS, len(member(model, "trees", list))):
        raise FileFormatError(
            f"a model of more than {MOST_OUTPUTS} outputs must have a tree for each, got "
            f"{n_outputs} outputs."
        )
    return n_features, n_outputs


def used_iterations(opened: Opened, model: Document, n_outputs: int) -> tuple[int, Array]:
    """Return how many trees answer, and the boosting iteration of each."""
    n_trees = len(member(model, "trees", list))
    if "iteration_indptr" in model:
        ends = integers(model["iteration_indptr"], "iteration_indptr", 0, n_trees + 1)
        if ends.size == 0 or ends[0] != 0 or ends[-1] != n_trees or np.any(np.diff(ends) < 0):
            raise FileFormatError(f"`iteration_indptr` must rise from 0 to {n_trees}.")
    else:  # before 2.0
        param = member(model, "gbtree_model_param", dict)
        per_iteration = n_outputs * max(1, integer(param, "num_parallel_tree", default=1))
        ends = np.append(np.arange(0, n_trees, per_iteration), n_trees)
    best = opened.attributes.get("best_iteration")
    if opened.wrapped and best is not None:
        last = integer(opened.attributes, "best_iteration") + 1
        if last >= ends.size:
            raise FileFormatError(
                f"`best_iteration` must be below the {ends.size - 1} iterations, got {last - 1}."
            )
        ends = ends[: last + 1]
    iteration = np.repeat(np.arange(ends.size - 1, dtype=np.int32), np.diff(ends))
    return int(ends[-1]), iteration


def _base_score(learner: Document, n_outputs: int) -> Array:
    """Read `base_score`: text of one number, or since 3.1 of a list of one or n_outputs."""
    text = member(member(learner, "learner_model_param", dict), "base_score", str)
    try:
        # Python 3.14 makes as many lists within each other as its stack has room for.
        value = json.loads(text) if text.count("[") < 2 else None
    except ValueError:
        value = None
    base = float32s(value if isinstance(value, list) else [value], "base_score")
    if base.size not in (1, n_outputs) or not np.all(np.isfinite(base)):
        raise FileFormatError(
            f"`base_score` must be 1 or {n_outputs} finite numbers, got {text[:80]!r}."
        )
    return np.resize(base, n_outputs)


def _groups(learner: Document, n_outputs: int) -> tuple[int, ...]:
    """Classes of one target share a group; several targets are a group each."""
    n_targets = integer(member(learner, "learner_model_param", dict), "num_target", default=1)
    return (1,) * n_outputs if n_targets > 1 else (n_outputs,)


def classes_of(opened: Opened, objective: Objective, n_outputs: int) -> tuple[Array, ...] | None:
    """Return the labels of each output group, or None for a regressor.

    Raises
    ------
    UnsupportedModelError
        If a wrapper answers with neither probabilities nor one label.
    """
    classifies = objective.classifies if opened.classifies is None else opened.classifies
    if not classifies:
        if objective.labels_from_raw:
            raise UnsupportedModelError(
                "a regressor must predict values, got the objective multi:softmax, by which it "
                "predicts numbers of classes: convert `model.get_booster()`."
            )
        return None
    groups = _groups(opened.learner, n_outputs)
    is_pair = opened.labels is not None and opened.labels.size == 2 == n_outputs
    if is_pair and len(groups) == 1 and not objective.labels_from_raw:
        raise UnsupportedModelError(
            "an XGBClassifier of two classes must have one output, got two, as by the objective "
            "multi:softprob: it predicts two truth values a row; convert `model.get_booster()`."
        )
    # A wrapper that was fitted to the class 0 alone has two columns of probabilities too.
    if opened.labels is not None and opened.labels.size > 1:
        return (opened.labels,) * len(groups)
    return tuple(np.arange(max(2, size)) for size in groups)


def _feature_names(learner: Document) -> tuple[str, ...] | None:
    names = member({"feature_names": []} | learner, "feature_names", list)
    if not all(isinstance(name, str) for name in names):
        raise FileFormatError("`feature_names` must be a list of texts, got other values.")
    return tuple(names) or None


def _version(document: Document) -> tuple[int, ...]:
    version = tuple(integers(document.get("version"), "version", 0, 2**31, 3).tolist())
    if version[0] > NEWEST_MAJOR:
        raise UnsupportedModelError(
            f"a model must come from an xgboost of at most version {NEWEST_MAJOR}, got "
            f"{'.'.join(map(str, version))}: save it with an older one."
        )
    return version


def _monotone(opened: Opened, n_features: int) -> Document:
    """Return the directions of all columns, where one has any; those left out are free."""
    if not any(opened.monotone):
        return {}
    signs = [*opened.monotone, *[0] * n_features][:n_features]
    return {"monotone_constraints": signs}


def _metadata(document: Document) -> Document:
    """Return the document without its trees, whose arrays the forest itself holds."""

    def without_trees(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_trees(child) for key, child in value.items() if key != "trees"}
        return plain(value)

    stripped: Document = without_trees(document)
    return stripped
