"""Output of a forest: aggregate of leaf vectors, base score, post-transform, classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from bitvec.core.arrays import FLOATS, Array, ArrayLike, put, put_array, read_only, require
from bitvec.core.shape_annotations import Float, Int32


class Aggregate(StrEnum):
    """Ways to combine the leaf vectors of trees."""

    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    WEIGHTED_MEDIAN = "weighted_median"


class PostTransform(StrEnum):
    """Functions of the raw score; `parameter` is alpha or the ratio c."""

    IDENTITY = "identity"
    SIGMOID = "sigmoid"
    """1 / (1 + exp(-parameter · x)), each output on its own."""
    LOGISTIC = "logistic"
    """1 / (1 + exp(-|x|)), or one minus that where x < 0, in float32."""
    SOFTMAX = "softmax"
    """Softmax of x / parameter, over the outputs of a group."""
    SOFTMAX_OF_HALVES = "softmax_of_halves"
    """The second of the softmax of -x / 2 and x / 2, as boosting of two classes by votes has it."""
    SOFTMAX_UNSHIFTED = "softmax_unshifted"
    """The same as exp(x) · (1 / sum of exp(x)), which overflows above 88 in float32."""
    SOFTMAX_ZERO = "softmax_zero"
    """The same, but a score of 0 (|x| <= 1e-7) stays 0."""
    PROBIT = "probit"
    """The quantile function of the normal distribution, by an approximation in float32."""
    EXPONENTIAL = "exponential"
    EXPONENTIAL_STANDARD_RATIO = "exponential_standard_ratio"
    """2 ** (-x / parameter)."""
    LOGARITHM_ONE_PLUS_EXP = "logarithm_one_plus_exp"
    SIGNED_SQUARE = "signed_square"
    HINGE = "hinge"
    """1 where x > 0, else 0."""
    AT_MOST_ONE = "at_most_one"
    """The lesser of x and 1 (shares of votes, whose sums may exceed 1 by rounding)."""


class SoftmaxSum(StrEnum):
    """Whose exponentials a softmax adds, and how: the last bits differ.

    An exponential by itself (`PostTransform.EXPONENTIAL`) is of the same library.
    """

    WIDE = "wide"
    """In float64, by pairs."""
    IN_ORDER = "in_order"
    """One after the other, in the dtype of the scores."""
    IN_ORDER_C = "in_order_c"
    """The same, of the C library's exponentials."""
    IN_ORDER_TABLE = "in_order_table"
    """The same, of exponentials made from a table: see `bitvec.core.transforms.table_exp`."""


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """Aggregation of leaf vectors to raw scores, and what becomes of these.

    The raw score of an output is accumulated in `dtype`, tree by tree in their order, from
    `base_score` on if `base_first`, else from 0 with `base_score` added at the end (after the
    division by the number of trees, for a mean): the order and dtype of the source library, so that
    raw scores equal its own bit for bit.

    Parameters
    ----------
    n_outputs : int
    dtype : numpy dtype
        float32 or float64.
    aggregate : Aggregate
    base_score : F or float64, (n_outputs,), optional
        Zeros if not given; F is `dtype`. A float64 base score of float32 sums is added in float64
        and the result rounded once; it cannot stand first.
    base_first : bool
    scale : F, (n_outputs,), optional
        Multiplies a sum over trees before the base score is added.
    tree_weight : F, (n_trees,), optional
        Multiplies a tree's leaf vectors, rounded to `dtype` before it is added.
    post_transform : PostTransform
    parameter : float
        Of the post-transform.
    classes : tuple of arrays, optional
        Labels of each output group, which makes this a classifier. A group of 1 output holds the
        probability of the second of its 2 classes.
    groups : tuple of int, optional
        Number of outputs in each group (one group per target); one group if not given.
    iteration : int32, (n_trees,), optional
        The boosting iteration that each tree belongs to.
    divisor : F, (n_outputs,), optional
        What a mean divides by, for example the trees that add to an output; the number of all
        trees if not given.
    labels_from_raw : bool
        Labels are the argmax of raw scores instead of probabilities, which can tie by rounding; a
        single output of 2 classes then takes the second where its raw score is positive.
    tie_to_second : bool
        Such an output takes the second class at a raw score of 0 too.
    boundary : float, optional
        What a single output of 2 classes must exceed for the second, instead of one half of a
        probability or 0 of a raw score.
    softmax_sum : SoftmaxSum
    """

    n_outputs: int
    dtype: np.dtype
    aggregate: Aggregate = Aggregate.SUM
    base_score: Float[Array, " n_outputs"] = None  # type: ignore[assignment] # becomes zeros
    base_first: bool = False
    scale: Float[Array, " n_outputs"] | None = None
    tree_weight: Float[Array, " n_trees"] | None = None
    post_transform: PostTransform = PostTransform.IDENTITY
    parameter: float = 1.0
    classes: tuple[Array, ...] | None = None
    groups: tuple[int, ...] = field(default=())
    iteration: Int32[Array, " n_trees"] | None = None
    divisor: Float[Array, " n_outputs"] | None = None
    labels_from_raw: bool = False
    tie_to_second: bool = False
    boundary: float | None = None
    softmax_sum: SoftmaxSum = SoftmaxSum.WIDE

    def __post_init__(self) -> None:
        put(self, dtype=np.dtype(self.dtype), aggregate=Aggregate(self.aggregate))
        put(self, post_transform=PostTransform(self.post_transform))
        put(self, softmax_sum=SoftmaxSum(self.softmax_sum))
        require(self.dtype in FLOATS, f"`dtype` must be float32 or float64, got {self.dtype}.")
        require(self.n_outputs >= 1, f"`n_outputs` must be at least 1, got {self.n_outputs}.")
        put(self, groups=tuple(self.groups) or (self.n_outputs,))
        require(
            sum(self.groups) == self.n_outputs and min(self.groups) >= 1,
            f"`groups` must sum to {self.n_outputs}, got {self.groups}.",
        )
        base = _or_zeros(self.base_score, self.n_outputs, self.dtype)
        wide = np.asarray(base).dtype == np.float64 and not self.base_first
        base_dtype = np.dtype(np.float64) if wide else self.dtype
        put(self, base_score=read_only("base_score", base, base_dtype, (self.n_outputs,)))
        require(
            self.tie_to_second <= self.labels_from_raw,
            "`tie_to_second` holds for labels from raw scores only.",
        )
        if self.divisor is not None:
            require(self.aggregate is Aggregate.MEAN, "`divisor` holds for a mean only.")
            put_array(self, "divisor", self.dtype, (self.n_outputs,))
        if self.scale is not None:
            require(
                self.aggregate is Aggregate.SUM and not self.base_first,
                "`scale` holds for a sum whose base score comes last only.",
            )
            put_array(self, "scale", self.dtype, (self.n_outputs,))
            require(
                np.all(np.isfinite(self.scale)) and np.all(self.scale != 0),
                "`scale` must be finite and not 0.",
            )
        require(
            self.boundary is None or bool(np.isfinite(self.boundary)),
            f"`boundary` must be finite, got {self.boundary}.",
        )
        put_array(self, "tree_weight", self.dtype, (None,))
        put_array(self, "iteration", np.int32, (None,))
        require(
            self.aggregate is Aggregate.SUM or not self.base_first,
            f"`base_first` holds for a sum only, got aggregate {self.aggregate}.",
        )
        require(
            (self.aggregate is Aggregate.WEIGHTED_MEDIAN) <= (self.tree_weight is not None),
            "a weighted median must have `tree_weight`.",
        )
        if self.classes is not None:
            put(self, classes=tuple(_labels(labels) for labels in self.classes))
            require(
                len(self.classes) == len(self.groups),
                f"`classes` must hold one array per group ({len(self.groups)}), "
                f"got {len(self.classes)}.",
            )
            for labels, size in zip(self.classes, self.groups, strict=True):
                require(
                    labels.size == (2 if size == 1 else size) or labels.size == size,
                    f"a group of {size} outputs must have as many classes (2 for one output), "
                    f"got {labels.size}.",
                )

    def take(self, trees: Array) -> Output:
        """Return the output of some trees, in this order."""
        weight, iteration = self.tree_weight, self.iteration
        return replace(
            self,
            tree_weight=None if weight is None else weight[trees],
            iteration=None if iteration is None else iteration[trees],
        )

    def require_trees(self, n_trees: int) -> None:
        """Check that arrays of trees have a value for each."""
        for name in ("tree_weight", "iteration"):
            values = getattr(self, name)
            require(
                values is None or values.size == n_trees,
                f"`output.{name}` must have one value per tree.",
            )

    def finish(
        self, total: Float[Array, "batch n_outputs"], n_trees: int
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw score of a sum over trees: divided or scaled, with the base score."""
        if self.aggregate is Aggregate.MEAN and n_trees:
            total = total / (self.dtype.type(n_trees) if self.divisor is None else self.divisor)
        if self.scale is not None:
            total = total * self.scale
        if self.base_first:
            return total
        return (total + self.base_score).astype(self.dtype, copy=False)

    @property
    def second_above(self) -> float:
        """Threshold above which a single output of 2 classes means the second."""
        if self.boundary is not None:
            return self.boundary
        return 0.0 if self.labels_from_raw else 0.5

    @property
    def is_classifier(self) -> bool:
        """True if `predict` returns labels."""
        return self.classes is not None


def _or_zeros(base_score: ArrayLike | None, n_outputs: int, dtype: np.dtype) -> ArrayLike:
    return np.zeros(n_outputs, dtype) if base_score is None else base_score


def _labels(labels: Array) -> Array:
    array = np.asarray(labels)
    if array.dtype == object and all(isinstance(label, str) for label in array):
        array = array.astype(str)
    require(
        array.dtype.kind in "biufU" and array.ndim == 1,
        f"class labels must be one axis of numbers, booleans or strings, got {array.dtype}.",
    )
    view = array.view()
    view.flags.writeable = False
    return view
