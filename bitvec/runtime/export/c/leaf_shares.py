"""Leaf vectors as shares: of n rows, how many are of each class.

A forest of classes holds in a leaf c / n, of whole numbers c and n. Where n is small, the vector is
kept as round(L · c / n) of at most 8 bits for each class, four of them in a word, and n in a byte:
c = round(n · that / L) is exact for n <= L, and so is the vector, divided anew. Vectors that are no
such shares are kept once more, as they are.

Words are added without being taken apart. With m = 0x00FF00FF a sum E of words and a sum O of
word >> 8 & m hold four sums of 16 bits: those of O's halves, and those of E - (O << 8).

The sums W and S of a class over all trees differ by less than the margin of two classes,
|(W₁ - W₂) - L · (S₁ - S₂)| <= M, where M adds over the trees the most that a leaf's rounding
errors are apart. So a class whose sum is more than M above all others has the greatest score,
rounded or not, as in `whole_labels`; and so has one that is more than M above half of all sums.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import narrow_floats, narrow_integers

MOST_CLASSES = 32
MOST_TREES = 1 << 11
_LARGEST = 255
_TRIED = 64
"""Vectors by which it is seen whether most are shares."""


class LeafShares:
    """The tables of some vectors as shares.

    Parameters
    ----------
    vectors : float64, (n_places, n_outputs)
        From 0 to 1; the places of all trees, equally many of each, one tree after the other.
    n_trees : int

    Notes
    -----
    Vectors without shares stand behind all others.
    """

    def __init__(self, vectors: Float[Array, "n_places n_outputs"], n_trees: int) -> None:
        rows, row = np.unique(vectors, axis=0, return_inverse=True)
        self.n_outputs = vectors.shape[1]
        self._largest = min(_LARGEST, (1 << 16) // n_trees - 1)
        n_rows = _rows_of(rows, self._largest)
        order = np.argsort(n_rows == 0, kind="stable")
        rows, self._n_rows = rows[order], n_rows[order]
        number = np.empty(len(rows), np.int64)
        number[order] = np.arange(len(rows))
        self._exact = narrow_floats(rows[self._n_rows == 0])
        parts = np.rint(rows * self._largest).astype(np.uint32)
        shift = [self.place_of(k)[1] for k in range(self.n_outputs)]
        self._words = np.zeros((len(rows), self.n_words), np.uint32)
        for k in range(self.n_outputs):
            self._words[:, k // 4] |= parts[:, k] << np.uint32(shift[k])
        number = number[row.ravel()]
        self.first = narrow_integers(number * self.n_words)
        of_trees = number.reshape(n_trees, -1)
        error = parts - rows * self._largest
        apart = np.ptp(error, axis=1)[of_trees].max(axis=1).sum()
        self.margin = int(apart) + 1
        self.total = int(parts.sum(axis=1)[of_trees].max(axis=1).sum())

    @property
    def n_words(self) -> int:
        """Words of a vector."""
        return -(-self.n_outputs // 4)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        n_rows = self._n_rows[self._n_rows > 0].astype(np.uint8)
        return self.first.nbytes + self._words.nbytes + n_rows.nbytes + self._exact.nbytes

    def place_of(self, k: int) -> tuple[int, int]:
        """Return the word of a class, and its lowest bit: two classes have a last word halved."""
        word = k // 4
        return word, k % 4 * (16 if self.is_halved(word) else 8)

    def is_halved(self, word: int) -> bool:
        """Return whether a word holds two classes at most, in 16 bits each."""
        return self.n_outputs - 4 * word <= 2

    def add(self, header: Header, first: str) -> str:
        """Append the tables and the function that adds a vector, and return the line that calls it.

        `first` is the expression of where the vector of a `leaf` begins.
        """
        n_rows = self._n_rows[self._n_rows > 0].astype(np.uint8)
        header.table("leaf_share", self._words.ravel(), "shares of the classes of each vector")
        header.table("leaf_rows", n_rows, "whole number that each vector's shares are of")
        if self._exact.size:
            header.table("leaf_exact", self._exact.ravel(), "the vectors behind them, as they are")
        word = f"(k & 3U) * {16 if self.is_halved(0) else 8}U"
        if self.n_words > 1 and self.is_halved(self.n_words - 1):
            word = f"(k & 3U) * (k < {4 * self.n_words - 4}U ? 8U : 16U)"
        header.code(
            _ADDER,
            first=header.filled(first),
            n_words=self.n_words,
            shift=word,
            half=self._largest // 2,
            largest=self._largest,
            exact=header.filled(_EXACT, n=n_rows.size) if self._exact.size else "",
        )
        return "        @add_leaf(leaf, raw);\n"

    def sums(self) -> tuple[str, str, str]:
        """Return lines that declare sums, that add `share` to them, and that part them."""
        declared, added, parted = [], [], []
        for j in range(self.n_words):
            declared.append(f"    uint32_t even_{j} = 0;\n")
            added.append(f"        even_{j} += share[{j}];\n")
            if not self.is_halved(j):
                declared.append(f"    uint32_t odd_{j} = 0;\n")
                added.append(f"        odd_{j} += share[{j}] >> 8 & mask;\n")
                parted.append(f"    even_{j} -= odd_{j} << 8;\n")
        if parted:
            declared.append(_MASK)
        return "".join(declared), "".join(added), "".join(parted)

    def sum_of(self, k: int) -> str:
        """Return the expression of 2**16 times a class's sum, or that and less than 2**16 more."""
        word = k // 4
        if self.is_halved(word):
            return f"even_{word}" if k % 4 else f"even_{word} << 16"
        name = f"{'odd' if k % 2 else 'even'}_{word}"
        return name if k % 4 > 1 else f"{name} << 16"


def leaf_shares(vectors: Array, n_trees: int) -> LeafShares | None:
    """Return vectors as shares; None if few are such, some not from 0 to 1, or too many added."""
    n_outputs = vectors.shape[1]
    holds = 1 < n_outputs <= MOST_CLASSES and n_trees <= MOST_TREES
    if not holds or not ((vectors >= 0) & (vectors <= 1) & ~np.signbit(vectors)).all():
        return None
    some = vectors[:: -(-len(vectors) // _TRIED)]
    if np.mean(_rows_of(some, _LARGEST) == 0) > 0.5:
        return None
    return LeafShares(vectors, n_trees)


def _rows_of(vectors: Array, largest: int) -> Array:
    """Return the least n of which each vector's numbers are shares, and 0 for none."""
    found = np.zeros(len(vectors), np.int64)
    left = np.arange(len(vectors))
    for n in range(1, largest + 1):
        some = vectors[left]
        fits = (np.rint(some * n) / n == some).all(axis=1)
        found[left[fits]] = n
        left = left[~fits]
    return found


_MASK = """    volatile uint32_t ones = 0x00FF00FFU; /* in a register: a shift is free beside it */
    const uint32_t mask = ones;
"""
_EXACT = """    if (vector >= ${n}U) {
        for (k = 0; k < @@N_OUTPUTS; k++) {
            raw[k] = raw[k] + (@score)@leaf_exact[(vector - ${n}U) * @@N_OUTPUTS + k];
        }
        return;
    }
"""
_ADDER = """
/* Add the vector of a leaf: of its rows those of each class. */
static inline void @add_leaf(const uint32_t leaf, @score *raw)
{
    const uint32_t first = $first;
    const uint32_t vector = first / ${n_words}U;
    uint32_t k;
    uint32_t n;
$exact    n = @leaf_rows[vector];
    for (k = 0; k < @@N_OUTPUTS; k++) {
        const uint32_t share = @leaf_share[first + k / 4U] >> $shift & 255U;
        if (share > 0U) {
            raw[k] = raw[k] + (@score)((share * n + ${half}U) / ${largest}U) / (@score)n;
        }
    }
}
"""
