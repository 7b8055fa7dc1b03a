"""Soft forests within networks harden in place, and the whole is certified and exported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bitvec
from bitvec.core.feature_maps.layers import ReLU
from bitvec.core.feature_maps.maps import Layers
from bitvec.core.forest import Forest
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import harden_  # noqa: E402
from bitvec.runtime.train.relax.hard_layers import HardLayer  # noqa: E402

FOREST = Forest.from_matrices(
    [[1, 0, 0], [0, 1, -1]], [0.25, 0.0], [[0, 0], [0, 1], [1, 1]], [[1.0, 0], [2, 1], [5, -1]]
)


def network(forest=FOREST):
    """Return an encoder, a soft forest after it and a head, after a few steps of training."""
    torch.manual_seed(0)
    soft = bitvec.to_torch(forest, "sigmoid", gamma=4.0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Tanh(), soft, torch.nn.Linear(2, 1))
    x = torch.randn(200, 5)
    optimiser = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(5):
        optimiser.zero_grad()
        (net(x)[:, 0] - x[:, 0].abs()).square().mean().backward()
        optimiser.step()
    return net, x


def test_the_encoder_learns_through_the_forest_which_then_hardens_in_place():
    net, x = network()
    assert all(parameter.grad.abs().sum() > 0 for parameter in net[0].parameters())
    expected = bitvec.from_torch(net[2])
    forests = harden_(net)
    assert list(forests) == ["2"]
    assert isinstance(net[2], HardLayer)
    with torch.no_grad():
        features = net[:2](x)
        raw = net[2](features)
        assert torch.equal(net(x), net[3](raw))
    scores = bitvec.compile(forests["2"], engine="reference").raw(features.numpy())
    assert np.array_equal(raw.numpy(), scores.astype(np.float32))
    assert np.array_equal(forests["2"].tests.b, expected.tests.b)
    certificate = bitvec.certify(
        forests["2"], net[2].hard, features.numpy(), engine="reference", progress=False
    )
    assert certificate.passed
    assert certificate.grade == "two-sided"


def test_the_hardened_network_is_one_exported_program():
    net, x = network()
    harden_(net)
    net.requires_grad_(False)
    batch = torch.export.Dim("batch")
    run = torch.export.export(net, (x[:2],), dynamic_shapes=({0: batch},)).module()
    for n in (200, 1, 0):
        # A product of matrices may add in another order in a batch of another size.
        torch.testing.assert_close(run(x[:n]), net(x[:n]))
    assert torch.equal(run(x), net(x))


def test_a_module_that_stands_twice_stays_one():
    soft = bitvec.to_torch(FOREST, "sigmoid")
    net = torch.nn.ModuleDict({"a": soft, "b": torch.nn.Sequential(soft)})
    assert list(harden_(net)) == ["a"]
    assert net["a"] is net["b"][0]


def test_a_hard_forest_refuses_to_cut_the_gradient_of_a_network():
    net, x = network()
    harden_(net)
    with pytest.raises(InputError, match="must not require a gradient"):
        net(x)


@pytest.mark.parametrize("module", [torch.nn.Linear(2, 1), bitvec.to_torch(FOREST, "sigmoid")])
def test_what_holds_no_soft_forest_is_refused(module):
    with pytest.raises(InputError, match=r"a network must hold|must be within a network"):
        harden_(module)


def test_nothing_is_replaced_unless_all_can_be():
    mapped = bitvec.to_torch(replace(FOREST, feature_map=Layers((ReLU(),), (3,))), "sigmoid")
    net = torch.nn.Sequential(bitvec.to_torch(FOREST, "sigmoid"), mapped)
    before = list(net)
    with pytest.raises(UnsupportedModelError, match="feature map"):
        harden_(net)
    assert list(net) == before


def test_only_modules_of_raw_scores_are_certified():
    module = bitvec.to_torch(FOREST, output="leaves")
    with pytest.raises(InputError, match='must have the output "raw"'):
        bitvec.certify(FOREST, module, progress=False)
