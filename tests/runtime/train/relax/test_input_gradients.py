"""Gradients with respect to rows: never lost without a word."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core.forest import Forest
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest  # noqa: E402
from bitvec.runtime.train.relax.soft_machine import SoftMachine  # noqa: E402

STUMP = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])


@pytest.mark.parametrize("kind", [SoftForest, SoftMachine])
def test_a_gradient_that_would_be_lost_is_refused(kind):
    module = kind.from_forest(STUMP)
    x = torch.zeros((2, 2), requires_grad=True)
    with pytest.raises(InputError, match=r"pass X\.detach\(\)"):
        module(x)
    with pytest.raises(InputError, match=r"pass X\.detach\(\)"):
        module.memberships(torch.nn.Linear(2, 2)(x))
    module.calibrate(x)
    with torch.no_grad():
        expected = module(x)
    assert torch.equal(module(x.detach()), expected)
    assert np.array_equal(module(x.detach().numpy()).detach(), expected)
