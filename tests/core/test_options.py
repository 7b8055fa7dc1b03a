"""What callers hand in beside rows: flags that are flags, and numbers that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitvec.core import options
from bitvec.errors import InputError


@pytest.mark.parametrize("value", [True, False, np.bool_(True), np.bool_(False)])
def test_a_flag_is_true_or_false(value: Any) -> None:
    assert options.flag("prune", value) is bool(value)


@pytest.mark.parametrize("value", [1, 0, "False", "", None, [], np.array([True]), 1.0])
def test_what_only_counts_as_one_is_no_flag(value: Any) -> None:
    with pytest.raises(InputError, match="`prune` must be True or False, got"):
        options.flag("prune", value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        ([1, 2.5], [1.0, 2.5]),
        (np.float32([[0.5]]), [[0.5]]),
        (np.uint8([255]), [255.0]),
        (np.array([1, 2.5], object), [1.0, 2.5]),
        ([], []),
    ],
)
def test_numbers_come_back_in_float64(value: Any, expected: Any) -> None:
    found = options.numbers(value)
    assert found is not None
    assert found.dtype == np.float64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    "value",
    [
        "1",
        ["1", "2"],
        1j,
        True,
        [True, False],
        None,
        {},
        [[1.0], [1.0, 2.0]],
        np.array([1, "2"], object),
        np.array([1, True], object),
        np.array(["2020-01-01"], "datetime64[D]"),
    ],
)
def test_text_flags_and_ragged_lists_are_no_numbers(value: Any) -> None:
    assert options.numbers(value) is None


def test_flags_count_where_the_caller_says_so() -> None:
    found = options.numbers([True, False], flags=True)
    assert found is not None
    assert found.tolist() == [1.0, 0.0]
    assert options.numbers(["1"], flags=True) is None
