"""The categories of a HistGradientBoosting model, as a forest reads them.

The model puts its categorical columns first and numbers their categories in order. Where the
categories are whole numbers, a forest reads the numbers themselves; where they are strings or
booleans, it reads their places in a code book, and strings are found there by the predictor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.category_sets import SET_WORDS_LIMIT
from bitvec.core.arrays import Array
from bitvec.core.inputs import Label
from bitvec.core.node_tests import WORD_BITS
from bitvec.core.shape_annotations import Bool, Int64, UInt32
from bitvec.errors import InvalidForestError, UnsupportedModelError

HIGHEST = 1 << 20
"""Category numbers lie below this: sets are bits."""
ENCODED = 256
"""Categories of a column that scikit-learn can tell apart."""


@dataclass(frozen=True, slots=True)
class Categories:
    """Categories of the model's own columns.

    Parameters
    ----------
    column : int64, (n_features,)
        The column of X that stands at each place of the model's own order.
    is_categorical : bool, (n_features,)
        By place.
    codes : dict
        For a categorical place, the forest's code of each of its categories.
    known : dict
        For a categorical place, which of its categories the trees know.
    books : tuple, optional
        By column of X, the categories whose place is the code.
    """

    column: Int64[Array, " n_features"]
    is_categorical: Bool[Array, " n_features"]
    codes: dict[int, Int64[Array, " n_categories"]]
    known: dict[int, Bool[Array, " n_categories"]]
    books: tuple[tuple[Label, ...] | None, ...] | None


def categories_of(model: Any, n_features: int) -> Categories:
    """Read the columns' order and the categories of a model.

    Raises
    ------
    UnsupportedModelError
        If categories are no strings, booleans or whole numbers from 0.
    InvalidForestError
        If the model's encoder contradicts its columns.
    """
    thresholds = getattr(getattr(model, "_bin_mapper", None), "bin_thresholds_", None)
    if not isinstance(thresholds, list) or len(thresholds) != n_features:
        raise InvalidForestError(
            f"the model must hold the bins of its {n_features} columns: it is damaged, or older "
            "than scikit-learn 1.4."
        )
    mask = getattr(model, "is_categorical_", None)
    if mask is None and getattr(model, "_preprocessor", None) is None:
        none = np.zeros(n_features, bool)
        return Categories(np.arange(n_features), none, {}, {}, None)
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (n_features,):
        raise InvalidForestError(
            f"`is_categorical_` must be {n_features} booleans, got {type(mask).__name__}: the "
            "model is damaged."
        )
    column = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
    n_categorical = int(mask.sum())
    encoder = encoder_of(model)
    _require_steps(model, mask, encoder)
    values = getattr(encoder, "categories_", None)
    if not isinstance(values, list) or len(values) != n_categorical:
        raise InvalidForestError(
            f"the model must hold the categories of {n_categorical} of its {n_features} columns: "
            "it is damaged."
        )
    books: list[tuple[Label, ...] | None] = [None] * n_features
    codes, known = {}, {}
    for place in range(n_categorical):
        name = f"column {column[place]}"
        codes[place], books[int(column[place])] = _codes(np.asarray(values[place]), name)
        seen = np.asarray(thresholds[place])
        if seen.dtype.kind not in "fiu" or np.any((seen < 0) | (seen >= ENCODED)):
            raise InvalidForestError(f"the trees' categories of {name} must be 0 to 255.")
        known[place] = np.isin(np.arange(codes[place].size), seen)
    has_books = any(book is not None for book in books)
    is_categorical = np.arange(n_features) < n_categorical
    return Categories(column, is_categorical, codes, known, tuple(books) if has_books else None)


def encoder_of(model: Any) -> Any:
    """Return the OrdinalEncoder inside a model, or None."""
    steps = getattr(getattr(model, "_preprocessor", None), "transformers_", None)
    if not isinstance(steps, list):
        return None
    found = (s[1] for s in steps if isinstance(s, tuple) and len(s) == 3 and s[0] == "encoder")
    return next(found, None)


def _require_steps(model: Any, mask: Bool[Array, " n_features"], encoder: Any) -> None:
    """Check that the steps before the trees do what scikit-learn has them do."""
    steps = getattr(getattr(model, "_preprocessor", None), "transformers_", None)
    wanted = {"encoder": mask, "numerical": ~mask}
    order = [step for step in steps or [] if isinstance(step, tuple) and step[:1] != ("remainder",)]
    sound = [step[0] for step in order] == list(wanted) and all(
        len(step) == 3 and np.array_equal(np.asarray(step[2]), wanted[step[0]]) for step in order
    )
    in_order = np.arange(mask.size) < mask.sum()
    binned = getattr(getattr(model, "_bin_mapper", None), "is_categorical_", None)
    sound = sound and np.array_equal(np.asarray(binned), in_order)
    sound = sound and getattr(encoder, "handle_unknown", None) == "use_encoded_value"
    unknown = [getattr(encoder, name, 0) for name in ("unknown_value", "encoded_missing_value")]
    if not sound or not all(isinstance(value, float) and value != value for value in unknown):
        raise InvalidForestError(
            "the model must encode its categorical columns, unknown categories as missing, and "
            "pass on the others: it is damaged, or older than scikit-learn 1.4."
        )


def _codes(values: Array, name: str) -> tuple[Int64[Array, " n"], tuple[Label, ...] | None]:
    """Return a column's codes, one per category, and its code book if it needs one."""
    items = values.ravel().tolist()
    # A missing category comes last and is no category to the trees.
    items = [item for item in items if not (isinstance(item, float) and item != item)]
    if len(items) > ENCODED:
        raise InvalidForestError(f"{name} must have at most {ENCODED} categories: it is damaged.")
    kinds = {type(item) for item in items}
    if items and (kinds == {str} or kinds == {bool}):
        return np.arange(len(items)), tuple(items)
    if kinds <= {int, float} and all(0 <= item < HIGHEST and item == int(item) for item in items):
        return np.array([int(item) for item in items], np.int64), None
    shown = ", ".join(repr(item) for item in items[:3])
    raise UnsupportedModelError(
        f"the categories of {name} must be strings, booleans, or whole numbers from 0 to "
        f"{HIGHEST - 1}, got {shown}: number them from 0 up and train again."
    )


def set_words(
    place: Int64[Array, " n_nodes"],
    is_set: Bool[Array, " n_nodes"],
    left: Bool[Array, "n_set_nodes 256"],
    missing_right: Bool[Array, " n_nodes"],
    found: Categories,
) -> tuple[Int64[Array, " n_nodes_plus_1"], UInt32[Array, " n_words"]]:
    """Return the bits of the codes that go right at each node.

    Codes that are no category go where a missing value goes, inside the range of the bits as well.
    """
    width = np.zeros(place.size, np.int64)
    n_words = {at: int(codes.max(initial=-1)) // WORD_BITS + 1 for at, codes in found.codes.items()}
    for at, words in n_words.items():
        width[is_set & (place == at)] = words
    set_ptr = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
    if set_ptr[-1] > SET_WORDS_LIMIT:
        raise UnsupportedModelError(
            f"category sets must take at most {SET_WORDS_LIMIT} words of {WORD_BITS} codes, got "
            f"{set_ptr[-1]}: number the categories from 0 up and train again."
        )
    result = np.zeros(int(set_ptr[-1]), np.uint32)
    row_of = np.cumsum(is_set) - 1
    for at, codes in found.codes.items():
        known = found.known[at]
        nodes = np.flatnonzero(is_set & (place == at))
        step = max(1, (1 << 24) // max(n_words[at] * WORD_BITS, 1))
        for chunk in (nodes[k : k + step] for k in range(0, nodes.size, step)):
            right = np.repeat(missing_right[chunk][:, None], n_words[at] * WORD_BITS, axis=1)
            right[:, codes[known]] = ~left[row_of[chunk]][:, : codes.size][:, known]
            packed = np.packbits(right, axis=1, bitorder="little").view("<u4").astype(np.uint32)
            result[set_ptr[chunk][:, None] + np.arange(n_words[at])] = packed
    return set_ptr, result
