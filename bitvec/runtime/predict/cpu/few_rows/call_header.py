"""The header of a call: int64 numbers and addresses that its compiled parts read by name."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec.core.arrays import Array
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, constant
from bitvec.runtime.predict.cpu.vectors import I64, load, number

FIELDS = (
    # The call.
    "find",  # the function that finds exit leaves, or only fills keys where there is `walk`
    "walk",  # the function that finds the exit leaves of some rows by their keys, or 0
    "rows_at_once",  # rows that go through the trees together
    "answer",  # the function that fills the answer to a row
    "find_rows",  # the function that finds the exit leaves of a block of rows in a lone tree, or 0
    "answers",  # the answers to the rows of each of its leaves
    "link",  # the function that makes scores the answer, 0 where they are it
    "n_features",
    "finite",  # whether rows with NaN or infinities are left to others
    "largest",  # below which values then must be, a float64
    "subnormal",  # a subnormal number, to see whether it counts
    "room_bytes",  # of the memory of a row: keys, then leaves, then scores
    "leaves_at",
    "scores_at",
    "out_bytes",  # of the answer to a row
    # A batch by binned columns.
    "binners",  # the kernels that bin, each with the address of what it reads
    "n_binners",
    "add_trees",  # the kernel that adds leaf values, and the address of what it reads
    "trees",
    "n_binned",
    "n_sums",  # of a row, with those that fill its registers
    "is_by_row",  # whether the sums of a row stand side by side
    "sum_bytes",
    "most_room",
    "block",  # rows that are run through the trees together
    # Key columns, and where rows go.
    "n_keys",
    "n_columns",
    "n_compared",
    "key_columns",
    "n_sets",
    "sets",
    "set_bits",
    "set_places",
    "set_masks",
    "addresses_at",
    "values_at",
    "found_at",
    "turn_of_tree",
    "ranked_columns",
    "cuts",
    "reading",
    "columns",
    "missing",
    "missing_first",
    "missing_last",
    "n_groups",
    "n_windows",
    "n_words",
    "counts",
    "places",
    "slots",
    "first_leaf",
    "n_trees",
    "leaf_ptr",
    "nodes",
    "depth",  # nodes on the longest path, of a tree or of those that are walked together
    "leaf_at",
    "column_bits",
    "roots",
    "weights",
    "has_vectors",
    "wants_vectors",
    # Leaf vectors and their sum.
    "id_of",
    "entry_ptr",
    "column",
    "v",
    "width",
    "n_outputs",
    "start",
    "divisor",
    "scale",
    "base",
    # The answer.
    "transform",  # the function that transforms scores, 0 where they stay
    "parameter",
    "is_wide",
    "takes_c_exp",
    "n_outputs_of",
    "n_groups_of",
    "n_classes_of",
    "second_above",
    "ties_to_second",
    "labels",
    "label_bytes",
    "offset",
    "leaf_id",
    "expf",
    "exp",
    "exp_table",
    "exp_loop",
    "exp_data",
    "log_loop",
    "log_data",
    "log1p_loop",
    "log1p_data",
    "power_loop",
    "power_data",
)


class Header:
    """Numbers and arrays by the names of `FIELDS`; those that are not given are 0.

    An empty array counts as not given. The arrays are held as long as the header is.
    """

    def __init__(self, **fields: int | Array | None) -> None:
        self._arrays = {
            name: constant(value)
            for name, value in fields.items()
            if isinstance(value, np.ndarray) and value.size
        }
        numbers = {name: int(v) for name, v in fields.items() if isinstance(v, int | np.integer)}
        places = {name: address_of(array) for name, array in self._arrays.items()}
        table = {**dict.fromkeys(FIELDS, 0), **numbers, **places}
        self._table = constant(np.array([table[name] for name in FIELDS], np.int64))
        self.address = address_of(self._table)

    def __getitem__(self, name: str) -> int:
        return int(self._table[FIELDS.index(name)])

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        return self._table.nbytes + sum(array.nbytes for array in self._arrays.values())


def field_of(builder, header, name: str):
    """Emit the load of a field, for an intrinsic."""
    return load(builder, header, number(8 * FIELDS.index(name)), I64)


@intrinsic(prefer_literal=True)
def field(typing_context, header, name):
    """Return the field of a name, a literal, from the header at an address."""

    def generate(context, builder, signature, arguments):
        return field_of(builder, arguments[0], name.literal_value)

    return types.int64(types.int64, name), generate
