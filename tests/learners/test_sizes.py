"""Numbers whose squares would overflow are refused, whatever their dtype, and without a warning."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.errors import InputError
from bitvec.learners.sizes import LARGEST, require_moderate, require_moderate_values


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, np.float32, np.float64])
def test_moderate_numbers_of_every_dtype_pass_without_a_warning(dtype: type) -> None:
    require_moderate("X", np.array([[0, 1], [2, 100]], dtype))
    require_moderate_values("y", np.array([[0], [100]], dtype))


def test_numbers_beyond_the_largest_are_refused() -> None:
    with pytest.raises(InputError, match=r"`X` must not hold numbers beyond 1e\+100, got 2e\+100"):
        require_moderate("X", np.array([0.0, -2 * LARGEST]))


def test_values_that_hardly_differ_are_refused() -> None:
    with pytest.raises(InputError, match="differ by at least 1e-130, got values"):
        require_moderate_values("y", np.array([[0.0], [1e-140]]))
