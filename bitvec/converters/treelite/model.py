"""Fields of a treelite model, checked before any of them is followed.

Field names and codes are those of treelite's serialization format 4. GTIL follows child links and
column numbers without a look at their range, so it is not run on a model that has not passed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bitvec.core.arrays import Array, require
from bitvec.core.shape_annotations import Bool, Float, Float64, Int64
from bitvec.errors import UnsupportedModelError

DTYPE: dict[int, np.dtype] = {2: np.dtype(np.float32), 3: np.dtype(np.float64)}
"""treelite's TypeInfo."""
BINARY, MULTICLASS = 0, 2
"""treelite's TaskType of classifiers."""
TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")
LEAF, NUMERICAL, CATEGORICAL = 0, 1, 2
"""treelite's TreeNodeType."""
EQ, LT, LE, GT, GE = 1, 2, 3, 4, 5
"""treelite's Operator; the test `x op threshold` sends a row left."""

_PARAMETER = {
    "sigmoid": "sigmoid_alpha",
    "multiclass_ova": "sigmoid_alpha",
    "exponential_standard_ratio": "ratio_c",
}


class Fields(Protocol):
    """The fields of a header or of a tree, by treelite's names: arrays, or text."""

    def get_field(self, name: str, /) -> Any:
        """Return a field."""
        ...


class Source4(Protocol):
    """A model of format 4, whose parts are read one by one: a treelite.Model, or a checkpoint."""

    @property
    def num_tree(self) -> int:
        """Number of trees."""
        ...

    def get_header_accessor(self) -> Fields:
        """Return the fields of the header."""
        ...

    def get_tree_accessor(self, tree_id: int, /) -> Fields:
        """Return the fields of one tree."""
        ...


@dataclass(frozen=True, slots=True)
class Header:
    """Fields of a model that concern all of its trees."""

    dtype: np.dtype
    n_features: int
    task: int
    average: bool
    num_class: Int64[Array, " n_targets"]
    target: Int64[Array, " n_trees"]
    """The target that each tree answers for, -1 for all."""
    class_id: Int64[Array, " n_trees"]
    """The class that each tree answers for, -1 for all."""
    leaf_shape: tuple[int, int]
    """Targets and classes of the leaf vectors, if there are any."""
    base_scores: Float64[Array, " n_targets_x_max_class"]
    postprocessor: str
    parameter: float
    """Parameter of the postprocessor; 1 where it has none."""

    @property
    def n_outputs(self) -> int:
        """Outputs of all targets."""
        return int(self.num_class.sum())

    @property
    def first_output(self) -> Int64[Array, " n_targets"]:
        """Place at which each target's outputs begin."""
        first: Array = np.cumsum(self.num_class) - self.num_class
        return first

    @property
    def max_class(self) -> int:
        """The largest number of classes, to which treelite pads."""
        return int(self.num_class.max())

    @property
    def is_output(self) -> Bool[Array, "n_targets max_class"]:
        """Mark the places of a padded table that are outputs."""
        mask: Array = np.arange(self.max_class) < self.num_class[:, None]
        return mask


_NODE_FIELDS = (
    "node_type",
    "cleft",
    "cright",
    "split_index",
    "default_left",
    "leaf_value",
    "threshold",
    "cmp",
    "category_list_right_child",
    "leaf_vector_begin",
    "leaf_vector_end",
    "category_list_begin",
    "category_list_end",
)
STATISTICS = ("sum_hess", "data_count", "gain")


def read_header(model: Source4) -> Header:
    """Read what a model says of all its trees.

    Raises
    ------
    UnsupportedModelError
        If thresholds and leaves differ in dtype.
    InvalidForestError
        If the fields contradict each other.
    """
    accessor = model.get_header_accessor()

    def read(name: str) -> Array:
        return np.array(accessor.get_field(name))

    kinds = {int(read(name)[0]) for name in ("threshold_type", "leaf_output_type")}
    if len(kinds) != 1 or not kinds <= DTYPE.keys():
        raise UnsupportedModelError(
            "thresholds and leaves must be of one type, float32 or float64, got treelite's types "
            f"{sorted(kinds)}: import the model again with treelite 4.4 or newer."
        )
    name = accessor.get_field("postprocessor")
    # An empty text field comes back as an empty array.
    name = name if isinstance(name, str) else ""
    header = Header(
        dtype=DTYPE[kinds.pop()],
        n_features=int(read("num_feature")[0]),
        task=int(read("task_type")[0]),
        average=bool(read("average_tree_output")[0]),
        num_class=read("num_class").astype(np.int64),
        target=read("target_id").astype(np.int64),
        class_id=read("class_id").astype(np.int64),
        leaf_shape=_leaf_shape(read("leaf_vector_shape")),
        base_scores=read("base_scores"),
        postprocessor=name,
        parameter=float(read(_PARAMETER[name])[0]) if name in _PARAMETER else 1.0,
    )
    _check_header(header, model.num_tree, int(read("num_target")[0]))
    return header


def _leaf_shape(values: Array) -> tuple[int, int]:
    require(values.size == 2, f"`leaf_vector_shape` must have 2 values, got {values.size}.")
    return int(values[0]), int(values[1])


def _check_header(header: Header, n_trees: int, n_targets: int) -> None:
    target, class_id, num_class = header.target, header.class_id, header.num_class
    require(0 <= header.task < len(TASKS), f"`task_type` must be known, got {header.task}.")
    require(
        num_class.size == n_targets >= 1 and np.all(num_class >= 1),
        f"`num_class` must hold one count of at least 1 for each of {n_targets} targets.",
    )
    require(
        target.size == class_id.size == n_trees
        and np.all((target >= -1) & (target < n_targets))
        and np.all(class_id >= -1),
        f"`target_id` and `class_id` must name an output of each of {n_trees} trees.",
    )
    room = np.where(target < 0, num_class.min(), num_class[target])
    require(np.all(class_id < room), "`class_id` must be below the number of classes.")
    require(
        header.base_scores.size == n_targets * header.max_class,
        f"`base_scores` must have {n_targets} x {header.max_class} values.",
    )


def gather(model: Source4, header: Header) -> tuple[dict[str, Array], Int64[Array, " n"]]:
    """Concatenate the fields of all trees, checked so that every index followed is in range.

    Offsets into `leaf_vector` and `category_list` are moved to the concatenated arrays; a statistic
    that no node has is left out, and NaN where one node lacks it.

    Returns
    -------
    nodes : dict of arrays, (n_positions,)
        By treelite's field names.
    start : int64, (n_trees + 1,)
        Where each tree begins.

    Raises
    ------
    InvalidForestError
        If a field is too short or an index out of range.
    """
    parts: dict[str, list[Array]] = {}
    statistics: dict[str, list[Array | None]] = {}
    sizes, n_values = [], {"leaf_vector": 0, "category_list": 0}
    for index in range(model.num_tree):
        accessor = model.get_tree_accessor(index)
        size = int(accessor.get_field("num_nodes")[0])
        sizes.append(size)
        for name in _NODE_FIELDS:
            field = np.asarray(accessor.get_field(name))  # joined below, which copies
            require(field.size == size, f"tree {index}: `{name}` must have {size} values.")
            parts.setdefault(name, []).append(field)
        for name in STATISTICS:
            statistics.setdefault(name, []).append(_statistic(accessor, name, size))
        for name, offset in n_values.items():
            values = np.asarray(accessor.get_field(name))
            for end in ("begin", "end"):
                bound = parts[f"{name}_{end}"][-1]
                require(np.all(bound <= values.size), f"tree {index}: `{name}` is too short.")
                parts[f"{name}_{end}"][-1] = bound.astype(np.int64) + offset
            parts.setdefault(name, []).append(values)
            n_values[name] = offset + values.size
    require(all(size >= 1 for size in sizes), "each tree must have at least one node.")
    empty = {
        name: np.zeros(0, np.int64) for name in (*_NODE_FIELDS, "leaf_vector", "category_list")
    }
    nodes = {name: np.concatenate(parts.pop(name)) for name in list(parts)} or empty
    for name, total in n_values.items():
        if total == 0:  # then each begins and ends at 0, which takes no memory to say
            for end in (f"{name}_begin", f"{name}_end"):
                nodes[end] = np.broadcast_to(np.int64(0), nodes[end].shape)
    for name, known in statistics.items():
        if any(values is not None for values in known):
            nodes[name] = np.concatenate(
                [
                    np.full(size, np.nan) if values is None else values
                    for size, values in zip(sizes, known, strict=True)
                ]
            )
    start = np.cumsum([0, *sizes]).astype(np.int64)
    _check_nodes(nodes, np.repeat(np.diff(start), np.diff(start)), header)
    return nodes, start


def _statistic(accessor: Any, name: str, size: int) -> Float[Array, " n_nodes"] | None:
    """Return a statistic of a tree's nodes, NaN where one lacks it; None if all do."""
    values = np.asarray(accessor.get_field(name))
    present = np.asarray(accessor.get_field(f"{name}_present"))
    if values.size != size or present.size != size or not np.any(present):
        return None
    known = np.where(present != 0, values.astype(np.float64), np.nan)
    return None if np.all(np.isnan(known)) else known


def _check_nodes(nodes: dict[str, Array], size: Array, header: Header) -> None:
    kind, left, right = nodes["node_type"], nodes["cleft"], nodes["cright"]
    inner = kind != LEAF
    require(
        np.all((kind >= LEAF) & (kind <= CATEGORICAL)) and np.array_equal(inner, left != -1),
        "`node_type` must be known, and a leaf's children -1: the model is damaged.",
    )
    require(
        np.all(~inner | ((left >= 0) & (left < size) & (right >= 0) & (right < size))),
        "the children of a node must be positions of its own tree: the model is damaged.",
    )
    column = nodes["split_index"]
    require(
        np.all(~inner | ((column >= 0) & (column < header.n_features))),
        f"each node must read a feature below {header.n_features}: the model is damaged.",
    )
    compared = nodes["cmp"][kind == NUMERICAL]
    require(
        np.all((compared >= EQ) & (compared <= GE)),
        "each numerical node must have a known comparison: the model is damaged.",
    )
    for name in ("leaf_vector", "category_list"):
        require(
            np.all(nodes[f"{name}_begin"] <= nodes[f"{name}_end"]),
            f"`{name}` must begin before it ends at each node: the model is damaged.",
        )
