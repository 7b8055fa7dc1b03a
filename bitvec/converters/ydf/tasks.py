"""Leaf values and outputs of a YDF model, as its fast engines compute them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.converters.ydf import schema
from bitvec.converters.ydf.data_spec import Columns, ColumnType
from bitvec.converters.ydf.directory import BOOSTED_TREES, ISOLATION_FOREST, Directory
from bitvec.converters.ydf.protobuf import Messages, Schema
from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float32, Float64, Int64
from bitvec.errors import FileFormatError, UnsupportedModelError


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
    """Task of a loss, and its transform of raw scores."""

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
"""Contents of a node."""


class Answers(NamedTuple):
    """Answers made of a sum of leaves; `width` is 1 where each tree adds to one output."""

    n_outputs: int
    width: int
    base: Float32[Array, " n_outputs"]
    post_transform: PostTransform = PostTransform.IDENTITY
    parameter: float = 1.0
    classes: Array | None = None


def read_answers(directory: Directory, columns: Columns) -> Answers:
    """Read what a model answers with.

    Raises
    ------
    UnsupportedModelError
        For a task or a loss that a forest cannot hold.
    FileFormatError
        If a header is damaged.
    """
    number = int(directory.model.ints("task")[0])
    if number not in list(Task):
        raise FileFormatError(f"the task must be one of YDF's, got {number}.")
    task = Task(number)
    classes = _classes(directory, columns) if task == Task.CLASSIFICATION else None
    if directory.kind == BOOSTED_TREES:
        return _boosted(directory, task, classes)
    if directory.kind == ISOLATION_FOREST:
        return _isolation(directory, task)
    if task == Task.REGRESSION:
        return Answers(1, 1, np.zeros(1, np.float32))
    if classes is None:
        _refuse_task(directory, task)
    assert classes is not None
    n_outputs = 1 if classes.size == 2 else classes.size
    base = np.zeros(n_outputs, np.float32)
    return Answers(n_outputs, n_outputs, base, PostTransform.AT_MOST_ONE, classes=classes)


def read_leaves(directory: Directory, nodes: Messages, answers: Answers) -> Array:
    """Read what some nodes hold, as far as they are leaves.

    Returns
    -------
    float32, (n, width)
        By position; of an isolation forest int64, the number of examples.

    Raises
    ------
    UnsupportedModelError
        If a leaf holds something else.
    FileFormatError
        If a leaf is damaged.
    """
    if directory.kind == ISOLATION_FOREST:
        return _examples(nodes)[:, None]
    if directory.kind == BOOSTED_TREES:
        return _numbers(nodes)[:, None]
    if answers.classes is None:
        return (_numbers(nodes) / np.float32(directory.n_trees))[:, None]
    return _shares(directory, nodes, answers.classes.size)


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


def _held(nodes: Messages, name: str, of: Schema) -> tuple[Messages, Array]:
    """Return what nodes hold, and which nodes; every leaf must hold it, and no node another."""
    is_leaf = ~nodes.has("condition")
    others = [other for other in _HELD if other != name]
    if not np.all(nodes.has(name)[is_leaf]) or any(np.any(nodes.has(other)) for other in others):
        raise UnsupportedModelError(
            f"the leaves of a model for this task must hold a {name}, got others."
        )
    return nodes.nested(name, of)


def _refuse_task(directory: Directory, task: Task) -> None:
    raise UnsupportedModelError(
        f"a model of kind {directory.kind} must be for classification, regression, ranking or "
        f"anomaly detection, got {task.name}."
    )


def _numbers(nodes: Messages) -> Float32[Array, " n"]:
    held, owner = _held(nodes, "regressor", schema.REGRESSOR)
    held.nested("distribution", schema.NORMAL)  # a damaged one ends YDF's reading of the trees
    v = np.zeros(nodes.size, np.float32)
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
    logits = bool(header.bools("output_logits")[0])
    if logits and n_outputs > 1 and np.any(base != 0):
        raise UnsupportedModelError(
            "a model of several classes that outputs logits must have no initial predictions: "
            "YDF's versions disagree about them, call set_output_logits(False)."
        )
    post_transform = PostTransform.IDENTITY if logits else link.post_transform
    return Answers(n_outputs, 1, base, post_transform, classes=classes)


def _shares(directory: Directory, nodes: Messages, n_classes: int) -> Float32[Array, "n n_outputs"]:
    """Return what each leaf of a random forest adds for each class, or for the second of two."""
    held, owner = _held(nodes, "classifier", schema.CLASSIFIER)
    is_leaf = ~nodes.has("condition")[owner]
    found, distribution_owner = held.nested("distribution", schema.DISTRIBUTION)
    share = np.zeros((nodes.size, n_classes), np.float32)
    if bool(directory.header.bools("winner_take_all_inference", default=True)[0]):
        vote = held.ints("top_value")
        if np.any((vote[is_leaf] < 1) | (vote[is_leaf] > n_classes)):
            raise FileFormatError("a leaf must vote for one of the classes, got another.")
        share[owner[is_leaf], vote[is_leaf] - 1] = np.float32(1) / np.float32(directory.n_trees)
    else:
        count, total = _counts(found, distribution_owner, is_leaf, n_classes)
        share[owner[is_leaf]] = (count / (total * directory.n_trees)[:, None]).astype(np.float32)
    return share[:, 1:] if n_classes == 2 else share


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


def _isolation(directory: Directory, task: Task) -> Answers:
    if task != Task.ANOMALY_DETECTION:
        _refuse_task(directory, task)
    sample = directory.header.ints("num_examples_per_trees")
    if np.any(sample < 2):
        raise FileFormatError("an isolation forest must count its examples, 2 or more a tree.")
    return Answers(
        1,
        1,
        np.zeros(1, np.float32),
        PostTransform.EXPONENTIAL_STANDARD_RATIO,
        float(path_length(sample)[0]),
    )


def _examples(nodes: Messages) -> Int64[Array, " n"]:
    held, owner = _held(nodes, "anomaly_detection", schema.ANOMALY)
    count = np.zeros(nodes.size, np.int64)
    count[owner] = held.ints("num_examples")
    if np.any(count[~nodes.has("condition")] < 0):
        raise FileFormatError("a leaf of an isolation forest must count its examples.")
    return count


def isolation_depth(
    n_examples: Int64[Array, " n"], depth: Int64[Array, " n"], n_trees: int
) -> Float32[Array, " n"]:
    """Return what a leaf of so many examples at this depth adds in an isolation forest."""
    v: Array = (depth.astype(np.float32) + path_length(n_examples)) / np.float32(n_trees)
    return v.astype(np.float32)


def path_length(n_examples: Any) -> Float32[Array, " n"]:
    """Return the expected depth of an example among `n_examples`, in float32 as YDF has it."""
    n = np.asarray(n_examples).astype(np.float32)
    one, two = np.float32(1), np.float32(2)
    more = np.maximum(n, two)
    harmonic = np.log((more - one).astype(np.float64)).astype(np.float32) + np.float32(0.5772156649)
    length = two * harmonic - two * (more - one) / more
    result: Array = np.where(n > 2, length, np.where(n == 2, one, np.float32(0)))
    return result
