"""Tables on their way through the steps, column by column, and what is known of each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from bitvec.converters.attribute_records import Record, library_class
from bitvec.converters.pipelines.operations import (
    DOUBLE,
    SINGLE,
    Operation,
    Replace,
    Require,
    cast,
    float_of,
)
from bitvec.errors import UnsupportedModelError


@dataclass(frozen=True, eq=False)
class Derived:
    """One column of a table on its way through the steps.

    Parameters
    ----------
    raw : int
        The column of the raw rows that it is made of.
    dtype : numpy dtype
        That of NumPy: float32, float64, bool or object; float64 stands for whole numbers too.
    operations : tuple
    is_marked : bool
        Whether NaN stands for an entry that a sparse matrix does not hold.
    """

    raw: int
    dtype: np.dtype
    operations: tuple[Operation, ...] = ()
    is_marked: bool = False

    @property
    def values(self) -> np.dtype:
        """The float dtype that holds its numbers."""
        return float_of(self.dtype)

    def then(self, operation: Operation, dtype: np.dtype | None = None) -> Derived:
        """Return the column after one more operation, which may change its dtype."""
        own = self.dtype if dtype is None else dtype
        return replace(self, dtype=own, operations=(*self.operations, operation))

    def to(self, dtype: np.dtype) -> Derived:
        """Return the column in another dtype."""
        if dtype == self.dtype:
            return self
        changed = replace(self, dtype=dtype)
        if changed.values == self.values:
            return changed
        return self.then(cast(self.values, changed.values), dtype)


@dataclass(frozen=True, eq=False)
class Block:
    """A table on its way through the steps.

    Parameters
    ----------
    columns : tuple of Derived
    is_sparse : bool
        Whether it is a sparse matrix, whose zeros are absent.
    frame : str
        The library of the frame that it is, if its columns have several dtypes there, which each
        keeps; "" otherwise.
    """

    columns: tuple[Derived, ...]
    is_sparse: bool = False
    frame: str = ""

    @property
    def dtype(self) -> np.dtype:
        """That of the first column, float64 if there is none."""
        return self.columns[0].dtype if self.columns else DOUBLE

    def take(self, which: Iterable[int]) -> Block:
        """Return some of the columns."""
        return replace(self, columns=tuple(self.columns[at] for at in which))

    def each(self, change: Callable[[int, Derived], Derived]) -> Block:
        """Return the block with each column changed."""
        return replace(self, columns=tuple(change(*pair) for pair in enumerate(self.columns)))

    def promoted(self) -> Block:
        """Return the block as one array: its columns in their common dtype."""
        dtypes = {column.dtype for column in self.columns}
        common = np.dtype(object) if np.dtype(object) in dtypes else np.result_type(*dtypes)
        return self.each(lambda _, column: column.to(common)) if len(dtypes) > 1 else self


@dataclass(eq=False)
class Walk:
    """State of the walk along the steps.

    Parameters
    ----------
    version : tuple of int
        Of scikit-learn.
    absent_is_missing : bool
        Whether the trees take what a sparse matrix does not hold for missing.
    checked : list of Derived
        Columns that a step checked or changed and that no later step may read.
    libraries : set of str
        Libraries whose own rounding was asked, so that the forest is exact for their versions.
    """

    version: tuple[int, ...]
    absent_is_missing: bool
    checked: list[Derived] = field(default_factory=list)
    libraries: set[str] = field(default_factory=set)


class Place(Protocol):
    """A step, an operator or a whole model, as messages name it."""

    def refuse(self, why: str) -> UnsupportedModelError:
        """Return the error for what cannot be folded."""
        ...


@dataclass(frozen=True, eq=False)
class Step:
    """A fitted step and where it stands.

    Parameters
    ----------
    model : estimator or Record
    place : str
        The names of the steps down to it, such as "prep > num > scale".
    """

    model: Any
    place: str

    @property
    def name(self) -> str:
        """The step for messages."""
        what = f"the step {self.place!r}" if self.place else "the pipeline"
        return f"{what} ({library_class(self.model)})"

    def inner(self, model: Any, name: str) -> Step:
        """Return a step within this one."""
        return Step(model, f"{self.place} > {name}" if self.place else name)

    def refuse(self, why: str) -> UnsupportedModelError:
        """Return the error for a step that cannot be folded."""
        return UnsupportedModelError(f"{self.name} cannot be folded into the trees: {why}.")

    def frame_of(self, block: Block) -> str:
        """Return the library of the frame as which the step returns columns of several dtypes.

        Of a live step scikit-learn's configuration counts where it has none of its own.
        """
        config = getattr(self.model, "_sklearn_output_config", {}).get("transform")
        sklearn = None if isinstance(self.model, Record) else sys.modules.get("sklearn")
        if config is None and sklearn is not None:
            config = sklearn.get_config().get("transform_output")
        one = len({column.dtype for column in block.columns}) < 2
        return "" if one or config in (None, "default") else str(config)

    def fitted(self, attribute: str) -> Any:
        """Return an attribute that a fitted step has."""
        if not hasattr(self.model, attribute):
            raise self.refuse(f"it is not fitted, for it has no `{attribute}`; call fit first")
        return getattr(self.model, attribute)

    def array(self, attribute: str, n: int) -> np.ndarray:
        """Return a fitted array of one number for each column."""
        value = np.asarray(self.fitted(attribute))
        if value.shape != (n,) or value.dtype.kind not in "fiu":
            raise self.refuse(
                f"its `{attribute}` must be {n} numbers, got {value.dtype} of shape {value.shape}"
            )
        return value

    def option(self, name: str, default: Any) -> Any:
        """Return a constructor's option; versions that lack it behave as with the default."""
        return getattr(self.model, name, default)


def as_floats(block: Block) -> Block:
    """Return the block as `check_array` with its dtypes of floats makes it."""
    block = block.promoted()
    if block.dtype not in (SINGLE, DOUBLE):
        return block.each(lambda _, column: column.to(DOUBLE))
    return block


def checked(block: Block, *, nan: bool) -> Block:
    """Return the block after the check that all values are finite, or NaN where that passes."""
    return block.each(
        lambda _, column: column.then(Require(column.values, nan=nan, infinite=False))
    )


def absent_marked(block: Block, walk: Walk) -> Block:
    """Return a sparse block whose absent entries are told from zeros that it holds."""
    if not block.is_sparse or not walk.absent_is_missing:
        return block

    def marked(_: int, column: Derived) -> Derived:
        if column.is_marked:
            return column
        own = column.values
        return replace(column.then(Replace(0.0, np.nan, own, own)), is_marked=True)

    return block.each(marked)


def joined(blocks: list[Block], step: Step, *, sparse: bool) -> Block:
    """Return blocks side by side, as one sparse matrix or one dense array."""
    if not sparse and any(column.is_marked for block in blocks for column in block.columns):
        raise step.refuse(
            "it makes a dense matrix of a scaled sparse one before trees that tell zeros apart"
        )
    found = Block(tuple(column for block in blocks for column in block.columns), sparse)
    frame = step.frame_of(found) or next((block.frame for block in blocks if block.frame), "")
    found = replace(found, frame=frame)
    return as_floats(found) if sparse else found.promoted()
