"""Leaves and answers of an ONNX operator, as onnxruntime 1.31 gives them.

The standard leaves much open, so the oracle is what the runtime does:

* It starts each output at 0, adds the trees in their order in one dtype (float64 only where the
  operator reads float64), divides a mean by the number of trees, and adds the base values last.
* A post-transform of a single target does nothing.
* A classifier takes its label from the raw scores.
* A classifier of two classes whose leaves weigh one class only has a rule of its own. If no weight
  is negative, the second class wins where the score s is above 0.5; its probability is s, or the
  logistic function of s. Otherwise the scores are −s and s, and the second class wins above 0.
* A classifier of one class answers its sums. Its label is that class here, as the standard has it;
  onnxruntime writes 1 for it, and ends the process if the label is a text.
"""

from __future__ import annotations

import numpy as np

from bitvec.converters.onnx.operator import Operator
from bitvec.converters.onnx.outputs import Behind
from bitvec.core.arrays import Array
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output, PostTransform, SoftmaxSum
from bitvec.core.structure import Bitvectors
from bitvec.errors import FileFormatError, UnsupportedModelError

LARGEST_LEAVES = 1 << 27
"""Numbers that dense leaf vectors may take; a few leaves of many targets would ask for more."""

_AGGREGATES = {
    "SUM": Aggregate.SUM,
    "AVERAGE": Aggregate.MEAN,
    "MIN": Aggregate.MIN,
    "MAX": Aggregate.MAX,
}
_TRANSFORMS = {
    "NONE": PostTransform.IDENTITY,
    "LOGISTIC": PostTransform.LOGISTIC,
    "SOFTMAX": PostTransform.SOFTMAX,
    "SOFTMAX_ZERO": PostTransform.SOFTMAX_ZERO,
    "PROBIT": PostTransform.PROBIT,
}


def answers(
    operator: Operator,
    trees: Bitvectors,
    leaf: Array,
    dtype: np.dtype,
    after: Behind,
    *,
    label_used: bool,
    rounds: bool,
) -> tuple[Leaves, Output]:
    """Return what the leaves hold and how they become an answer.

    Parameters
    ----------
    leaf : int64, (n_leaves,)
        The operator's leaf at each leaf of `trees`.
    dtype : numpy dtype
        In which the operator sums.
    after : Behind
        What becomes of its scores.
    label_used : bool
        Whether anybody reads a classifier's label; without it, it has no classes here.
    rounds : bool
        Whether the operator answers in a narrower dtype than it sums in.

    Raises
    ------
    UnsupportedModelError
        If no forest answers as onnxruntime does.
    """
    # Only a leaf of several weights may repeat a target.
    several = np.bincount(operator.weight_leaf, minlength=operator.n_leaves) > 1
    several_weights = several[operator.weight_leaf]
    pair = operator.weight_leaf[several_weights].astype(np.int64)
    pair *= operator.n_targets
    pair += operator.weight_target[several_weights]
    if np.any(pair[1:] < pair[:-1]):  # exporters list them in order, and sorting takes time
        pair.sort()
    repeats = bool(np.any(pair[1:] == pair[:-1]))
    del pair, several_weights
    if repeats:
        raise UnsupportedModelError(
            "each leaf must have at most one weight for a target, got several: onnxruntime's own "
            "kernels disagree on what that means."
        )
    _require_steps(operator, after, rounds=rounds)
    n_base = operator.base.size
    target = operator.weight_target
    one_weighed = target.size > 0 and int(target.min()) == int(target.max())
    n_classes = 0 if operator.labels is None else operator.labels.size
    if n_classes == 1:
        _require_one_class(operator)
    elif n_classes == 2 and (one_weighed or label_used):
        return _two_classes(operator, trees, leaf, dtype, label_used)
    if n_base not in (0, operator.n_targets):
        raise FileFormatError(
            f"`base_values` must hold 0 or {operator.n_targets} numbers, got {n_base}."
        )
    labelled = operator.labels is not None and label_used
    two = operator.labels is not None and operator.labels.size == 2
    values, base = _vectors(operator, trees, leaf, need_all=labelled or two)
    transform = "NONE" if _is_ignored(operator) else operator.transform
    divided = after.divisor is not None
    return values, Output(
        operator.n_targets,
        dtype,
        aggregate=Aggregate.MEAN if divided else _AGGREGATES[operator.aggregate],
        base_score=base if n_base and not divided else np.zeros(operator.n_targets, dtype),
        post_transform=PostTransform.EXPONENTIAL
        if after.is_exponential
        else _TRANSFORMS[transform],
        divisor=np.full(operator.n_targets, after.divisor, dtype) if divided else None,
        classes=(operator.labels,) if labelled and operator.labels is not None else None,
        labels_from_raw=labelled,
        softmax_sum=SoftmaxSum.IN_ORDER_C,
    )


def _require_one_class(operator: Operator) -> None:
    """Refuse a classifier of one class whose label is no constant, or whose score is transformed.

    onnxruntime answers its scores as they are summed, and the labels 1 and 0 whatever the class is
    called: by whether the score is above 0 where a weight is negative, else 1.
    """
    if operator.negative_weights:
        raise UnsupportedModelError(
            "a classifier of one class must have no negative weights, got some: onnxruntime's "
            "label is then whether the score is above 0: name both of its classes."
        )
    if operator.transform == "PROBIT":
        raise UnsupportedModelError(
            "a classifier of one class must not have the post-transform PROBIT, which onnxruntime "
            "applies to its sum as to a probability: convert the model that it was exported from."
        )


def _require_steps(operator: Operator, after: Behind, *, rounds: bool) -> None:
    """Refuse a Div or Exp behind the operator where a forest would round or add elsewhere."""
    if not after.steps:
        return
    if rounds:
        reason = "scores that the operator rounds from float64 to float32"
    elif operator.transform != "NONE" and not _is_ignored(operator):
        reason = f"the post-transform {operator.transform} in between"
    elif after.divisor is not None and operator.aggregate != "SUM":
        reason = f"the aggregate {operator.aggregate}"
    elif after.divisor is not None and np.any(operator.base):
        reason = "base values, which it divides too"
    else:
        return
    raise UnsupportedModelError(
        f"a {after.steps[0].op_type} behind the trees must follow their plain sum, got {reason}: "
        "convert the model that it was exported from."
    )


def _is_ignored(operator: Operator) -> bool:
    """Return whether onnxruntime leaves the post-transform out: that of a single target."""
    return operator.n_targets == 1 and operator.transform != "PROBIT"


def _vectors(
    operator: Operator, trees: Bitvectors, leaf: Array, *, need_all: bool
) -> tuple[Leaves, Array]:
    """Return the leaves and the base score.

    Leaves hold one number and its output, where that is all there is, or dense vectors.
    """
    count = np.bincount(operator.weight_leaf, minlength=operator.n_leaves)
    first = np.cumsum(count) - count
    summed = operator.aggregate in ("SUM", "AVERAGE")
    if operator.n_targets == 1:
        # A leaf without weight counts as 0.
        weight = np.append(operator.weight, operator.weight.dtype.type(0))
        at = np.where(count > 0, first, operator.weight.size)
        return Leaves(weight[at][leaf][:, None]), operator.base
    one_each = summed and bool(np.all(count == 1))
    if operator.n_targets * max(leaf.size, operator.n_leaves) > LARGEST_LEAVES:
        if need_all or operator.base.size or not one_each:
            raise UnsupportedModelError(
                f"leaf vectors must hold at most {LARGEST_LEAVES} numbers, got {leaf.size} leaves "
                f"x {operator.n_targets} targets: export fewer trees."
            )
        return _one_each(operator, leaf), operator.base
    held = np.zeros((operator.n_leaves, operator.n_targets), bool)
    held[operator.weight_leaf, operator.weight_target] = True
    held = held[leaf]
    sure = np.logical_and.reduceat(held, trees.leaf_ptr[:-1], axis=0).any(axis=0)
    sometimes = held.any(axis=0) & ~sure
    if need_all and operator.base.size == 0 and not np.all(sure):
        raise UnsupportedModelError(
            "each class must have a weight in every leaf of some tree, got class number "
            f"{int(np.flatnonzero(~sure)[0])} without: onnxruntime's label then skips the class "
            "where its score is 0, which no argmax does."
        )
    base = operator.base
    if operator.labels is None:
        # onnxruntime answers 0 for a target that no leaf of the row weighs, whatever its base.
        sometimes_based = sometimes & (base != 0) if base.size else np.zeros_like(sometimes)
        if np.any(sometimes_based) or (not summed and np.any(sometimes)):
            raise UnsupportedModelError(
                "each target that has a base value, or is a minimum or maximum, must have a "
                "weight in every leaf of some tree, or none at all, got one that only some leaves "
                "know: onnxruntime answers 0 for it elsewhere."
            )
        base = np.where(sure | sometimes, base, base.dtype.type(0)) if base.size else base
    if one_each:
        return _one_each(operator, leaf), base
    pad = {"MIN": np.inf, "MAX": -np.inf}.get(operator.aggregate, 0.0)
    v = np.full((operator.n_leaves, operator.n_targets), pad, operator.weight.dtype)
    v[:, ~held.any(axis=0)] = 0
    v[operator.weight_leaf, operator.weight_target] = operator.weight
    return Leaves(v[leaf]), base


def _one_each(operator: Operator, leaf: Array) -> Leaves:
    target = operator.weight_target[leaf].astype(np.int32)
    return Leaves(operator.weight[leaf][:, None], target)


def _two_classes(
    operator: Operator,
    trees: Bitvectors,
    leaf: Array,
    dtype: np.dtype,
    label_used: bool,
) -> tuple[Leaves, Output]:
    labels = operator.labels
    assert labels is not None
    weighed = np.flatnonzero(np.bincount(operator.weight_target))
    if weighed.size != 1:
        raise UnsupportedModelError(
            "the leaves of a classifier of two classes must weigh one class only, got weights of "
            f"{weighed.size}: onnxruntime's label is then whether the second score is above 0, "
            "not the higher score: export it with weights for class id 0 only."
        )
    plain = operator.transform in ("NONE", "SOFTMAX", "SOFTMAX_ZERO")
    second = int(weighed[0]) == 1
    if operator.base.size > (0 if second else 1):
        raise UnsupportedModelError(
            "a classifier of two classes must have at most one base value, and none if its leaves "
            f"weigh class id 1, got {operator.base.size}: onnxruntime adds them to one of its two "
            "scores only."
        )
    if operator.transform == "PROBIT" and not second:
        raise UnsupportedModelError(
            "the post-transform PROBIT must not stand in a classifier of two classes whose leaves "
            "weigh class id 0 only: onnxruntime then writes one of its two scores only."
        )
    count = np.bincount(operator.weight_leaf, minlength=operator.n_leaves)
    if second and not np.any(np.minimum.reduceat(count[leaf], trees.leaf_ptr[:-1])):
        raise UnsupportedModelError(
            "class id 1 must have a weight in every leaf of some tree, got none such: onnxruntime "
            "answers otherwise where a row reaches leaves without weights only."
        )
    score = np.append(operator.weight, dtype.type(0))
    at = np.where(count > 0, np.cumsum(count) - count, operator.weight.size)
    score = score[at][leaf][:, None]
    base = operator.base if operator.base.size else np.zeros(1, dtype)
    if not operator.negative_weights and second and label_used:
        raise UnsupportedModelError(
            "a classifier of two classes without negative weights must weigh class id 0, got class "
            "id 1: onnxruntime's label is whether the raw score is above 0.5, which its "
            "probabilities do not follow."
        )
    if not operator.negative_weights and not second:
        # The scores 1 − s and s are no sum over trees; they are the probabilities of one output.
        return Leaves(score), Output(
            1,
            dtype,
            base_score=base,
            post_transform=PostTransform.IDENTITY if plain else PostTransform.LOGISTIC,
            classes=(labels,),
            labels_from_raw=not plain,
            boundary=None if plain else 0.5,
        )
    both = np.concatenate([np.zeros_like(score) if second else -score, score], axis=1)
    transform = PostTransform.IDENTITY if plain and not second else _TRANSFORMS[operator.transform]
    return Leaves(both), Output(
        2,
        dtype,
        base_score=np.concatenate([-base, base]),
        post_transform=transform,
        classes=(labels,) if label_used else None,
        labels_from_raw=label_used,
    )
