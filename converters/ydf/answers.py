"""Leaf values and outputs of a YDF model, as its fast engines compute them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from bitvec.arrays import Array
from bitvec.converters.ydf import schema
from bitvec.converters.ydf.columns import Columns, ColumnType
from bitvec.converters.ydf.directory import BOOSTED_TREES, ISOLATION_FOREST, Directory
from bitvec.converters.ydf.messages import Messages, Schema
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.output import PostTransform


class Task(IntEnum):
    """YDF's tasks."""

    CLASSIFICATION = 1
    REGRESSION = 2
    RANKING = 3
    CATEGORICAL_UPLIFT = 4
    NUMERICAL_UPLIFT = 5
    ANOMALY_DETECTION = 6
    SURVIVAL_ANALYSIS = 7


class Loss(IntEnum):
    """YDF's losses of boosted trees."""

    BINOMIAL_LOG_LIKELIHOOD = 1
    SQUARED_ERROR = 2
    MULTINOMIAL_LOG_LIKELIHOOD = 3
    LAMBDA_MART_NDCG5 = 4
    XE_NDCG_MART = 5
    BINARY_FOCAL_LOSS = 6
    POISSON = 7
    MEAN_AVERAGE_ERROR = 8
    LAMBDA_MART_NDCG = 9


class Link(NamedTuple):
    """What a loss is used for, and what it does to raw scores."""

    tasks: tuple[Task, ...]
    post_transform: PostTransform = PostTransform.IDENTITY


LINKS: Final[dict[Loss, Link]] = {
    **dict.fromkeys(
        (Loss.BINOMIAL_LOG_LIKELIHOOD, Loss.BINARY_FOCAL_LOSS),
        Link((Task.CLASSIFICATION,), PostTransform.SIGMOID),
    ),
    Loss.MULTINOMIAL_LOG_LIKELIHOOD: Link((Task.CLASSIFICATION,), PostTransform.SOFTMAX_UNSHIFTED),
    Loss.POISSON: Link((Task.REGRESSION,), PostTransform.EXPONENTIAL),
    **dict.fromkeys((Loss.SQUARED_ERROR, Loss.MEAN_AVERAGE_ERROR), Link((Task.REGRESSION,))),
    **dict.fromkeys(
        (Loss.LAMBDA_MART_NDCG5, Loss.LAMBDA_MART_NDCG, Loss.XE_NDCG_MART), Link((Task.RANKING,))
    ),
}
POISSON_BOUND: Final = 19.0
"""YDF keeps the exponent of a Poisson regression within this bound."""


_HELD: Final = ("classifier", "regressor", "uplift", "anomaly_detection")
"""What a node may hold."""


class Answers(NamedTuple):
    """What leaves hold and what becomes of their sum.

    `v` is float32, (n_positions, width), by position in the file; of width 1 where each tree adds
    to one output.
    """

    n_outputs: int
    v: Float32[Array, "n_positions width"]
    base: Float32[Array, " n_outputs"]
    post_transform: PostTransform = PostTransform.IDENTITY
    parameter: float = 1.0
    classes: Array | None = None


def read_answers(directory: Directory, columns: Columns, depth: Array) -> Answers:
    """Read what the leaves of a model hold.

    Parameters
    ----------
    depth : int64, (n_positions,)
        Of each node of the file.

    Raises
    ------
    UnsupportedModelError
        For a task or a loss that a forest cannot hold.
    FileFormatError
        If a leaf is damaged.
    """
    task = int(directory.model.ints("task")[0])
    if task not in list(Task):
        raise FileFormatError(f"the task must be one of YDF's, got {task}.")
    classes = _classes(directory, columns) if task == Task.CLASSIFICATION else None
    if directory.kind == BOOSTED_TREES:
        return _boosted(directory, Task(task), classes)
    if directory.kind == ISOLATION_FOREST:
        return _isolation(directory, Task(task), depth)
    return _random_forest(directory, Task(task), classes)


def _classes(directory: Directory, columns: Columns) -> Array:
    """Return the labels, as `label_classes` does: texts, without code 0."""
    label = int(directory.model.ints("label_col_idx", -1)[0])
    if not 0 <= label < len(columns.names) or columns.type[label] != ColumnType.CATEGORICAL:
        raise FileFormatError("a classifier must name a categorical column as its label.")
    words = columns.words.get(label)
    if words is None:
        if columns.n_codes[label] > 2**16:
            raise UnsupportedModelError("a classifier must have at most 65,536 classes.")
        words = tuple(map(str, range(int(columns.n_codes[label]))))
    if len(words) < 3:
        raise UnsupportedModelError(f"a classifier must have 2 classes, got {words[1:]}.")
    return np.array(words[1:])


def _held(directory: Directory, name: str, of: Schema) -> tuple[Messages, Array]:
    """Return what nodes hold, and which nodes; every leaf must hold it, and no node another."""
    is_leaf = ~directory.nodes.has("condition")
    others = [other for other in _HELD if other != name]
    if not np.all(directory.nodes.has(name)[is_leaf]) or any(
        np.any(directory.nodes.has(other)) for other in others
    ):
        raise UnsupportedModelError(
            f"the leaves of a model for this task must hold a {name}, got others."
        )
    return directory.nodes.nested(name, of)


def _refuse_task(directory: Directory, task: Task) -> None:
    raise UnsupportedModelError(
        f"a model of kind {directory.kind} must be for classification, regression, ranking or "
        f"anomaly detection, got {task.name}."
    )


def _numbers(directory: Directory) -> Float32[Array, " n_positions"]:
    held, owner = _held(directory, "regressor", schema.REGRESSOR)
    held.nested("distribution", schema.NORMAL)  # a damaged one ends YDF's reading of the trees
    v = np.zeros(directory.nodes.size, np.float32)
    v[owner] = held.floats("top_value")
    return v


def _boosted(directory: Directory, task: Task, classes: Array | None) -> Answers:
    header = directory.header
    number = int(header.ints("loss")[0])
    if number not in list(Loss) or task not in LINKS[Loss(number)].tasks:
        raise UnsupportedModelError(
            f"boosted trees must have one of the losses {', '.join(loss.name for loss in Loss)} "
            f"for its task, got loss {number} for {task.name}."
        )
    link = LINKS[Loss(number)]
    base, _ = header.repeated("initial_predictions")
    n_outputs = 1
    if classes is not None and link.post_transform is PostTransform.SOFTMAX_UNSHIFTED:
        n_outputs = classes.size
    elif classes is not None and classes.size != 2:
        raise FileFormatError(f"this loss must have 2 classes, got {classes.size}.")
    per_iteration = int(header.ints("num_trees_per_iter", 1)[0])
    if base.size != n_outputs or per_iteration != n_outputs or directory.n_trees % n_outputs:
        raise FileFormatError(
            f"boosted trees must come {n_outputs} an iteration with as many initial predictions, "
            f"got {per_iteration} and {base.size}."
        )
    v = _numbers(directory)[:, None]
    logits = bool(header.bools("output_logits")[0])
    if logits and n_outputs > 1 and np.any(base != 0):
        raise UnsupportedModelError(
            "a model of several classes that outputs logits must have no initial predictions: "
            "YDF's versions disagree about them, call set_output_logits(False)."
        )
    post_transform = PostTransform.IDENTITY if logits else link.post_transform
    return Answers(n_outputs, v, base, post_transform, classes=classes)


def _random_forest(directory: Directory, task: Task, classes: Array | None) -> Answers:
    n_trees = np.float32(directory.n_trees)
    if task == Task.REGRESSION:
        return Answers(1, (_numbers(directory) / n_trees)[:, None], np.zeros(1, np.float32))
    if classes is None:
        _refuse_task(directory, task)
    assert classes is not None
    held, owner = _held(directory, "classifier", schema.CLASSIFIER)
    is_leaf = ~directory.nodes.has("condition")[owner]
    found, distribution_owner = held.nested("distribution", schema.DISTRIBUTION)
    share = np.zeros((directory.nodes.size, classes.size), np.float32)
    if bool(directory.header.bools("winner_take_all_inference", default=True)[0]):
        vote = held.ints("top_value")
        if np.any((vote[is_leaf] < 1) | (vote[is_leaf] > classes.size)):
            raise FileFormatError("a leaf must vote for one of the classes, got another.")
        share[owner[is_leaf], vote[is_leaf] - 1] = np.float32(1) / n_trees
    else:
        count, total = _counts(found, distribution_owner, is_leaf, classes.size)
        share[owner[is_leaf]] = (count / (total * directory.n_trees)[:, None]).astype(np.float32)
    if classes.size == 2:
        share = share[:, 1:]
    n_outputs = share.shape[1]
    return Answers(
        n_outputs,
        share,
        np.zeros(n_outputs, np.float32),
        PostTransform.AT_MOST_ONE,
        classes=classes,
    )


def _counts(
    found: Messages, owner: Array, is_leaf: Array, n_classes: int
) -> tuple[Float64[Array, "n_leaves n_classes"], Float64[Array, " n_leaves"]]:
    """Return the count of each class at the leaves, without code 0, and their sums."""
    counts, of = found.repeated("counts")
    if np.any(np.bincount(of, minlength=found.size) != n_classes + 1):
        raise FileFormatError("a distribution must have a count for each class.")
    each = np.zeros((is_leaf.size, n_classes + 1))
    total = np.zeros(is_leaf.size)
    each[owner] = counts.reshape(-1, n_classes + 1)
    total[owner] = found.doubles("sum")
    each, total = each[is_leaf], total[is_leaf]
    if not np.all(total > 0) or not np.all(np.isfinite(each)):
        raise FileFormatError("a leaf must hold a distribution of finite counts.")
    return each[:, 1:], total


def _isolation(directory: Directory, task: Task, depth: Array) -> Answers:
    if task != Task.ANOMALY_DETECTION:
        _refuse_task(directory, task)
    held, owner = _held(directory, "anomaly_detection", schema.ANOMALY)
    count = np.zeros(directory.nodes.size, np.int64)
    count[owner] = held.ints("num_examples")
    sample = directory.header.ints("num_examples_per_trees")
    is_leaf = ~directory.nodes.has("condition")
    if np.any(count[is_leaf] < 0) or np.any(sample < 2):
        raise FileFormatError("an isolation forest must count its examples, 2 or more a tree.")
    n_trees = np.float32(directory.n_trees)
    v = np.where(is_leaf, (depth.astype(np.float32) + path_length(count)) / n_trees, 0)
    return Answers(
        1,
        v.astype(np.float32)[:, None],
        np.zeros(1, np.float32),
        PostTransform.EXPONENTIAL_STANDARD_RATIO,
        float(path_length(sample)[0]),
    )


def path_length(n_examples: Any) -> Float32[Array, " n"]:
    """Return the expected depth of an example among `n_examples`, in float32 as YDF has it."""
    n = np.asarray(n_examples).astype(np.float32)
    one, two = np.float32(1), np.float32(2)
    more = np.maximum(n, two)
    harmonic = np.log((more - one).astype(np.float64)).astype(np.float32) + np.float32(0.5772156649)
    length = two * harmonic - two * (more - one) / more
    result: Array = np.where(n > 2, length, np.where(n == 2, one, np.float32(0)))
    return result
