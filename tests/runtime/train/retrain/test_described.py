"""What a checkpoint is known by: values and functions, told alike in every process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bitvec.runtime.train.retrain.described import described  # noqa: E402

QUANTILE = 0.1


def pinball(raw, target, q):
    gap = target - raw
    return torch.maximum(q * gap, (q - 1) * gap)[:, 0]


def made(q):
    return lambda raw, target: pinball(raw, target, q)


def of_module(raw, target):
    return pinball(raw, target, QUANTILE)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, step):
        return self.factor * step

    def other(self, step):
        return step


class ScaledAnew(Scaled):
    def __call__(self, step):
        return self.factor + step


def with_default(step, rate=0.1):
    return rate * step


def with_other_default(step, rate=0.2):
    return rate * step


with_other_default.__qualname__ = with_default.__qualname__

PAIRS = {
    "constants": (lambda: torch.nn.Linear(4, 8), lambda: torch.nn.Linear(4, 16)),
    "constants of inner functions": (lambda: lambda: 1, lambda: lambda: 2),
    "defaults": (with_default, with_other_default),
    "closures": (made(0.1), made(0.9)),
    "partial arguments": (
        functools.partial(pinball, q=0.1),
        functools.partial(pinball, q=0.9),
    ),
    "state": (Scaled(1.0), Scaled(2.0)),
    "bound methods": (Scaled(1.0).other, Scaled(2.0).other),
    "arrays in closures": (made(np.arange(3.0)), made(np.arange(4.0))),
    "modules of torch": (torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)),
    "classes": (Scaled(1.0), ScaledAnew(1.0)),
    "numbers": ({"gamma": (1.0, 8.0)}, {"gamma": (1.0, 9.0)}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_differs_is_told_otherwise(name):
    one, other = PAIRS[name]
    assert described(one) != described(other)
    assert described(one) == described(one)
    json.dumps(described(one))


def test_a_function_is_told_with_the_variables_of_its_module(monkeypatch):
    before = described(of_module)
    monkeypatch.setitem(globals(), "QUANTILE", 0.9)
    assert described(of_module) != before


def test_what_refers_to_itself_comes_to_an_end():
    ring: list[object] = [1]
    ring.append(ring)
    known = {"self": None}
    known["self"] = lambda: known
    assert described(ring) == described(ring)
    assert described(known) == described(known)
    assert described(torch.nn.functional.mse_loss) != described(torch.nn.functional.l1_loss)


def test_every_process_tells_the_same():
    code = (
        "import json, functools, torch\n"
        "from bitvec.runtime.train.retrain.described import described\n"
        "def loss(raw, target, names={'a', 'b', 'c'}): return raw in {'x', 'y', 'z'}\n"
        "print(json.dumps(described([functools.partial(loss, q={'u', 'v', 'w'}), torch.float32,"
        " torch.optim.AdamW, torch.nn.functional.mse_loss, None, object()])))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
