"""A device is one that torch can use here, or one sentence says that it is not."""

from __future__ import annotations

import pytest

from bitvec.core.forest import Forest
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.predict.torch import TorchEngine, devices  # noqa: E402

STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


@pytest.mark.parametrize(
    "device", ["gpu", "", "meta", "hpu", "cuda:99", 3.5, -1, 10**30, ["cpu"], object()]
)
def test_a_device_that_cannot_be_used_is_refused_in_one_sentence(device):
    for ask in (devices.find, lambda device: TorchEngine(STUMP, device)):
        with pytest.raises(InputError, match="`device` must be one that torch can use") as caught:
            ask(device)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_the_cpu_is_found(device):
    assert devices.find(device).type == "cpu"
