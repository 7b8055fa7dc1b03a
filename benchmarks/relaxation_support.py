"""Relaxations and what each supports, found by trying.

python -m benchmarks.relaxation_support [--json] [--save]
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.report import Column, Goal, Report, Row, Table
from benchmarks.runner import Benchmark, run
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError
from bitvec.runtime.train.relax import SoftForest
from bitvec.runtime.train.relax.relaxations import RELAXATIONS


def _forest() -> Forest:
    rng = np.random.default_rng(0)
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    tree = Forest.from_matrices(np.eye(3), rng.normal(size=3), B, rng.normal(size=4))
    return tree.take([0, 0])


def _made(name: str, dtype: torch.dtype = torch.float64, **options: Any) -> SoftForest:
    return SoftForest.from_forest(_forest(), name, dtype=dtype, **options)


def _rows() -> Tensor:
    return torch.tensor(np.random.default_rng(1).normal(size=(6, 3)))


def _compiled(name: str) -> bool:
    torch._dynamo.reset()
    module, x = _made(name), _rows()
    return _close(torch.compile(module, backend="eager", fullgraph=True)(x), module(x))


def _exported(name: str) -> bool:
    module, x = _made(name), _rows()
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (x,), dynamic_shapes=({0: batch},)).module()
    return _close(program(x[:1]), module(x[:1]))


def _by_row(name: str) -> bool:
    module, x = _made(name), _rows()
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: module(row[None])[0]))(x)
    x.requires_grad_()
    (expected,) = torch.autograd.grad(module(x)[:, 0].sum(), x)
    return _close(jacobian[:, 0], expected)


def _of_each_row(name: str) -> bool:
    """Try gradients of every row with respect to the parameters, by `functional_call`."""
    module, x = _made(name), _rows()
    held = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}

    def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return torch.func.functional_call(module, values, (row[None],)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(held, x)
    module(x).square().sum().backward()
    return _close(found["b"].sum(0), module.b.grad)


def _doubled(name: str) -> bool:
    module = _made(name, torch.float32).double()
    return _close(module(_rows()), _made(name)(_rows()))


def _narrow(name: str) -> bool:
    module, x = _made(name, torch.bfloat16), _rows()
    module(x).sum().backward()
    return bool(module(x).isfinite().all())


def _half(name: str) -> bool:
    module, x = _made(name, torch.float32), _rows().half()
    return _close(module(x), module(x.double()))


def _sparse(name: str) -> bool:
    module, x = _made(name, routing="sparse", gamma=5.0), _rows()
    return _close(module(x), _made(name, gamma=5.0)(x))


def _close(found: Tensor, expected: Any) -> bool:
    return torch.allclose(found, expected, rtol=1e-6, atol=1e-9)  # sums in another order


SPARSE: Final = "sparse routing"
TRIED: Final[dict[str, Callable[[str], bool]]] = {
    "`compile(fullgraph=True)`": _compiled,
    "`export`": _exported,
    "`vmap(jacrev)` of rows": _by_row,
    "gradient of each row, by `functional_call`": _of_each_row,
    "`.double()`": _doubled,
    "rows in float16": _half,
    "bfloat16": _narrow,
    SPARSE: _sparse,
}


def cases(options: Namespace) -> Iterable[str]:
    """Return the names of relaxations."""
    return RELAXATIONS


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield what one relaxation supports: "yes", "differs", or why it is refused."""
    relaxation = RELAXATIONS[name]
    score = "" if relaxation.score is None else f" of {relaxation.score}"
    row: Row = {"name": name, "gate": relaxation.gate, "map": f"{relaxation.leaf_map}{score}"}
    for what, tried in TRIED.items():
        try:
            row[what] = "yes" if tried(name) else "differs"
        except BitvecError as error:
            must, _, rest = str(error).partition(", got ")
            row[what] = f"{must}: {rest.rpartition(': ')[2]}"
    yield row


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return that nothing differs, and that all but sparse routing is held by all."""
    tried = [name for name in TRIED if name != SPARSE]
    missing = sum(row[name] != "yes" for row in rows for name in tried)
    return [Goal("cells that are not yes, but for sparse routing", "0", missing, True)]


def _after(report: Report) -> str:
    cells = (row[name] for row in report["rows"] for name in TRIED)
    reasons = dict.fromkeys(cell for cell in cells if cell not in ("yes", "differs"))
    return "\n\n".join(f"No: {reason}" for reason in reasons)


def _cell(name: str) -> Callable[[Row], str]:
    return lambda row: row[name] if row[name] in ("yes", "differs") else "no"


BENCHMARK: Final = Benchmark(
    "relaxation_support",
    cases,
    measure,
    goals,
    {
        "table": Table(
            (
                Column("relaxation", lambda row: f"`{row['name']}`"),
                Column("gate", "gate"),
                Column("leaf map", "map"),
                *(Column(name, _cell(name)) for name in TRIED),
            ),
            list,
            after=_after,
        )
    },
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
