"""One row, or a few: 8 trees at a time, and as little around them as a call can do with.

All that a call hands over is X, one address and what it fills: each array that numba unpacks costs
a twentieth of what a small forest takes. Behind the address lie the addresses of everything else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.runtime.predict.cpu.compiling import Kernel
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, constant
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import reading_of
from bitvec.runtime.predict.cpu.traversal.onerow_kernels import FIELDS, FILL, LABEL


class OneRow:
    """A forest packed for a row or a few of one dtype.

    Parameters
    ----------
    forest : Forest
        One that `unsupported_reason` does not refuse.
    dtype : numpy dtype
        That of X.
    """

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        self.forest = forest
        self.dtype = np.dtype(dtype)
        output = forest.output
        compared = min(self.dtype, forest.dtype, key=lambda each: each.itemsize)
        sums = leaf_vectors.pack(forest)
        trees = keyed.pack(forest, compared, sums.vector_of(forest.n_leaves), sums.n_vectors)
        gap = _gap(output)
        self._arrays = {
            "leaf_ptr": trees.leaf_ptr,
            "nodes": trees.nodes,
            "key_columns": trees.key_columns,
            "words": trees.words,
            "id_of": sums.id_of[:0] if trees.has_vectors else sums.id_of,
            "entry_ptr": sums.entry_ptr,
            "column": sums.column,
            "v": sums.v,
            "start": _start(output),
            "divisor": _divisor(output, forest.n_trees),
            "scale": np.zeros(0) if output.scale is None else output.scale,
            "base": _base(output),
            "second_above": np.array([output.dtype.type(output.second_above)], np.float64),
            "gap": np.array([gap or 0.0]),
        }
        self._arrays = {name: constant(array) for name, array in self._arrays.items()}
        numbers = {
            "n_trees": forest.n_trees,
            "n_key_columns": trees.key_columns.size,
            "reading": reading_of(self.dtype, forest.dtype),
            "has_vectors": trees.has_vectors,
            "width": sums.v.shape[1],
            "n_outputs": output.n_outputs,
            "is_single": output.classes is not None and output.classes[0].size == 2,
            "ties_to_second": output.tie_to_second,
        }
        places = {name: address_of(array) for name, array in self._arrays.items() if array.size}
        table = {**dict.fromkeys(FIELDS, 0), **numbers, **places}
        self._header = constant(np.array([table[name] for name in FIELDS], np.int64))
        self._address = address_of(self._header)
        self._fill = FILL[trees.is_narrow]
        self._label = LABEL[trees.is_narrow, output.dtype] if gap is not None else None

    def __reduce__(self) -> tuple[Callable[..., OneRow], tuple[Forest, np.dtype]]:
        return OneRow, (self.forest, self.dtype)

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        return self._header.nbytes + sum(array.nbytes for array in self._arrays.values())

    def raw(self, X: Float[Array, "batch n_columns"]) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores of C-contiguous rows of the dtype that this was made for."""
        output = self.forest.output
        scores = np.empty(len(X) * output.n_outputs, output.dtype)
        self._fill(X, self._address, scores)
        return scores.reshape(len(X), output.n_outputs)

    @property
    def scores_of(self) -> tuple[Kernel, int]:
        """The kernel of raw scores, (X, address, out), and its address."""
        return self._fill, self._address

    @property
    def label_of(self) -> tuple[Kernel, int] | None:
        """The kernel of one row's label, (X, address): negative where scores leave a doubt.

        None where the raw scores do not tell labels.
        """
        return None if self._label is None else (self._label, self._address)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why the kernel cannot take a forest, in a few words, or None."""
    if forest.output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        return "its trees are not summed"
    if forest.leaves.linear is not None:
        return "its leaves are linear in x"
    return keyed.unsupported_reason(forest)


def _start(output: Output) -> Array:
    """Return what a sum starts at, if that is not 0."""
    return np.zeros(0) if not output.base_first else np.asarray(output.base_score)


def _divisor(output: Output, n_trees: int) -> Array:
    if output.aggregate is not Aggregate.MEAN or n_trees == 0:
        return np.zeros(0)
    if output.divisor is not None:
        return output.divisor
    return np.full(output.n_outputs, n_trees, output.dtype)


def _base(output: Output) -> Array:
    """Return the base score that is added last, in float64.

    A sum of two float32 rounded to float64 and then to float32 is that rounded to float32 at once.
    """
    return np.zeros(0) if output.base_first else np.asarray(output.base_score, np.float64)


def _gap(output: Output) -> float | None:
    """Return by how much a raw score must lead to win for certain, or None if none is enough.

    Labels that are told from raw scores need no lead. Of a sigmoid or a softmax, a lead of 0.001
    shows in the probabilities whatever the rounding: exp(-0.001) is far from 1 for a float32.
    """
    if output.classes is None or len(output.groups) > 1:
        return None
    if output.labels_from_raw or output.post_transform is PostTransform.IDENTITY:
        return 0.0
    is_single = output.n_outputs == 1 and output.classes[0].size == 2
    sigmoid = output.post_transform in (PostTransform.SIGMOID, PostTransform.LOGISTIC)
    if is_single and sigmoid and output.boundary is None and output.parameter == 1.0:
        return 0.001
    softmax = output.post_transform is PostTransform.SOFTMAX
    if not is_single and softmax and output.parameter == 1.0:
        return 0.001
    return None
