"""Leaf vectors as tables: each distinct vector once, or each distinct number once, if that is less.

A table of vectors is read through an index of leaves where vectors recur. Its numbers stand as they
are, or through an index of numbers where these recur, or as whole multiples of a power of two where
all are such: of these forms the one with the fewest bytes is written.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import C_TYPES, narrow_floats, narrow_integers, number
from bitvec.runtime.export.c.multiples import multiples

_Form = tuple[list[tuple[str, Array, str]], str]


def add_vectors(header: Header, name: str, vectors: Float[Array, "n width"], kind: str) -> None:
    """Append vectors as tables, and the function that reads one number of them.

    Parameters
    ----------
    name : str
        Of the function: `name_...(leaf, k)`.
    kind : str
        The type that it returns, in the header's notation.
    """
    tables, reading = min(_forms(name, vectors), key=_nbytes)
    for suffix, array, meaning in tables:
        header.table(f"{name}{suffix}", array, meaning)
    reading = reading.replace("$kind", kind)
    header.code(_READ, name=f"@{name}", kind=kind, reading=reading)


def fewest_bytes(vectors: Float[Array, "n width"]) -> int:
    """Return the bytes of the tables that `add_vectors` would append."""
    return min(map(_nbytes, _forms("", vectors)))


def _nbytes(form: _Form) -> int:
    return sum(array.nbytes for _, array, _ in form[0])


def _forms(name: str, vectors: Float[Array, "n width"]) -> list[_Form]:
    """Return tables, each with a suffix and a meaning, and the expression that reads them."""
    width = vectors.shape[1]
    vectors = narrow_floats(vectors)
    rows, row = _distinct_rows(vectors)
    forms: list[_Form] = []
    for shared_rows in (False, True):
        tables = [("_vector", narrow_integers(row), "vector of each leaf")] if shared_rows else []
        content = rows if shared_rows else vectors
        at = f"@{name}_vector[leaf]" if shared_rows else "leaf"
        at = f"{at} * {width}U + k" if width > 1 else f"{at} + k"
        values, place = _distinct_rows(content.reshape(-1, 1))
        whole = multiples(content.ravel())
        if whole is not None:
            table = ("_steps", whole.steps, f"numbers of the vectors, in steps of {whole.step:g}")
            forms.append(([*tables, table], whole.reading(f"@{name}_steps[{at}]", "$kind")))
        forms.append(
            (
                [*tables, ("s", content.ravel(), "numbers of the vectors")],
                f"@{name}s[{at}]",
            )
        )
        forms.append(
            (
                [
                    *tables,
                    ("_number", narrow_integers(place), "which number stands where in the vectors"),
                    ("s", values.ravel(), "the distinct numbers"),
                ],
                f"@{name}s[@{name}_number[{at}]]",
            )
        )
    return forms


_READ = """
static inline $kind $name(const uint32_t leaf, const uint32_t k)
{
    return ($kind)$reading;
}
"""


def _distinct_rows(vectors: Float[Array, "n width"]) -> tuple[Array, Array]:
    """Return the distinct vectors, by their bits, and which of them each vector is."""
    bits = np.ascontiguousarray(vectors).view(f"u{vectors.itemsize}")
    rows, row = np.unique(bits, axis=0, return_inverse=True)
    return np.ascontiguousarray(rows).view(vectors.dtype), row.reshape(-1)


def add_linear_leaves(header: Header, forest: Forest) -> None:
    """Append the function that computes the vector of a leaf that is linear in x."""
    linear, v = forest.leaves.linear, forest.leaves.v
    assert linear is not None
    kind = C_TYPES[v.dtype]
    header.code("typedef $kind @linear;\n", kind=kind)
    add_vectors(header, "fallback", v, "@linear")
    if not linear.column.size:  # no leaf has a term: all keep their constants
        header.code(_CONSTANT, width=v.shape[1])
        return
    add_vectors(header, "constant", linear.constant, "@linear")
    header.table("term_first", narrow_integers(linear.leaf_ptr), "first term of each leaf")
    header.table("term_column", narrow_integers(linear.column), "column of each term")
    header.table("term_weight", narrow_floats(linear.weight.ravel()), "weights of each term")
    bound = number(linear.zero_threshold, v.dtype)
    zero = f"        if (v >= -{bound} && v <= {bound}) {{\n            v = 0;\n        }}\n"
    header.code(_LINEAR, width=v.shape[1], zero=zero if linear.zero_threshold else "")


_CONSTANT = """
static inline void @leaf_vector(const @input *x, const uint32_t leaf, @linear *vector)
{
    uint32_t k;
    (void)x;
    for (k = 0; k < $width; k++) {
        vector[k] = @fallback(leaf, k);
    }
}
"""
_LINEAR = """
/* A product that no compiler joins with the sum around it: a fused one rounds once, not twice. */
static inline @linear @linear_product(const @linear a, const @linear b)
{
    volatile @linear product = a * b;
    return product;
}

/* The vector of a leaf: constant + weight * x, or another constant if a value is missing. */
static inline void @leaf_vector(const @input *x, const uint32_t leaf, @linear *vector)
{
    const uint32_t first = @term_first[leaf];
    const uint32_t last = @term_first[leaf + 1U];
    int missing = first == last;
    uint32_t term;
    uint32_t k;
    for (k = 0; k < $width; k++) {
        vector[k] = @constant(leaf, k);
    }
    for (term = first; term < last; term++) {
        @linear v = (@linear)x[@term_column[term]];
$zero        missing = missing || v != v;
        for (k = 0; k < $width; k++) {
            vector[k] = vector[k] + @linear_product((@linear)@term_weight[term * $width + k], v);
        }
    }
    if (missing) {
        for (k = 0; k < $width; k++) {
            vector[k] = @fallback(leaf, k);
        }
    }
}
"""
