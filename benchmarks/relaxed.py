"""Time and memory of one training step of every relaxation, beside the dense product.

    python -m benchmarks.relaxed [--json] [--quick] [--save]

100 trees of depths 4 to 14, 32 columns, 1,024 rows, S, b and v free: forward and backward. Each
form is measured in a process of its own for its memory, on Linux; the two that are compared take
turns in one process for their time, after their answers were found equal.
"""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.report import Column, Goal, Report, Row, measured_by, one, six_digits, table, where
from benchmarks.runner import Benchmark, run
from benchmarks.worker import CannotRunError, held, reset_peak
from benchmarks.workers import alone
from bitvec.core import matrices, structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.runtime.train.relax import SoftForest
from bitvec.runtime.train.relax import sparsemax as projections
from bitvec.runtime.train.relax.relaxations import RELAXATIONS

COLUMNS: Final = 32
BATCH: Final = 1024
DENSE: Final = "dense"
DEEPEST_OF_ALL: Final = 10
"""Beyond this depth only path products are measured, once: at depth 12 the dense form's gates and
memberships would be 100 x 4,096 x 1,024 numbers, several times."""
WHAT: Final = ("scores", "gradients of S", "gradients of b", "gradients of v")
MAPS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "softmax": lambda score: torch.softmax(score, dim=1),
    "sparsemax": projections.sparsemax,
    "entmax15": projections.entmax15,
}

Step = Callable[[], tuple[Tensor, ...]]
"""Goes forward and backward; returns raw scores and the gradients of S, if it turns, b and v."""


class Size(NamedTuple):
    """All relaxations at one depth, or all maps at one number of leaves."""

    what: str
    size: int

    def __str__(self) -> str:
        """Return the name of the case."""
        return f"{self.what} {self.size}"


def cases(options: Namespace) -> list[Size]:
    """Return depths of trees, and numbers of leaves."""
    depths = (4, 6) if options.quick else (4, 6, 8, 10, 12, 14)
    return [*(Size("depth", d) for d in depths), *(Size("leaves", n) for n in (64, 256, 1024))]


def measure(case: Size, options: Namespace) -> Iterator[Row]:
    """Yield a row for each relaxation, or for each map of one tree's leaves."""
    n_trees, turns = (10, 3) if options.quick else (100, 7)
    if case.what == "leaves":
        taken = seconds({name: projection(name, case.size) for name in MAPS}, turns=3 * turns)
        for name, value in taken.items():
            ratio = value / taken["softmax"]
            yield {"what": "map", "form": name, "leaves": case.size, "of_softmax": ratio}
        return
    facts = {"what": "step", "trees": n_trees, "depth": case.size}
    if case.size > DEEPEST_OF_ALL:
        for name in ("sigmoid", "smooth_step"):
            yield facts | {"form": name} | process(name, n_trees, case.size)
        return
    forest, X = complete(n_trees, case.size), rows()

    def own_mb(name: str) -> float | None:
        mb: float | None = process(name, n_trees, case.size)["mb"]
        return mb

    reference, dense_mb = dense(forest, X), own_mb(DENSE)
    for name in RELAXATIONS:
        steps = {name: ours(forest, X, name), DENSE: reference}
        difference = require_equal(*steps.values()) if name == "sigmoid" else None
        taken = seconds(steps, turns=turns if name == "sigmoid" else 2)
        yield facts | {
            "form": name,
            "seconds": taken[name],
            "dense_seconds": taken[DENSE],
            "times_faster": taken[DENSE] / taken[name],
            "difference": difference,
            # A process a relaxation is too much for a minute.
            "mb": None if options.quick and name != "sigmoid" else own_mb(name),
            "dense_mb": dense_mb,
        }


def complete(n_trees: int, depth: int, seed: int = 0) -> Forest:
    """Return complete trees of one depth with drawn tests and leaves, in float32."""
    rng = np.random.default_rng(seed)
    n, n_leaves = 2**depth - 1, 2**depth
    node, tree = np.arange(n), np.arange(n_trees)[:, None]
    left, right = (
        np.where(child < n, tree * n + child, ~(tree * n_leaves + child - n)).ravel()
        for child in (2 * node + 1, 2 * node + 2)
    )
    B = structure.arrange(left, right, tree[:, 0] * n)[0]
    tests = axis_aligned(
        rng.integers(0, COLUMNS, B.n_nodes), rng.normal(size=B.n_nodes).astype(np.float32)
    )
    v = rng.normal(size=(B.n_leaves, 1)).astype(np.float32)
    return Forest(tests, B, Leaves(v), Output(1, np.dtype(np.float32)), Inputs(COLUMNS))


def rows(seed: int = 1) -> Array:
    """Return normally distributed rows."""
    return np.random.default_rng(seed).normal(size=(BATCH, COLUMNS)).astype(np.float32)


def ours(forest: Forest, X: Array, relaxation: str) -> Step:
    """Return a step of a SoftForest with S, b and v free."""
    module = SoftForest.from_forest(forest, relaxation, trainable=("S", "b", "v"))
    prepared = module.prepare(X)
    # A box of a kernel has no row that turns.
    moved = (*(() if module.rows is None else (module.rows.S,)), module.b, module.v)

    def step() -> tuple[Tensor, ...]:
        module.zero_grad()
        raw: Tensor = module(prepared)
        raw.square().mean().backward()  # type: ignore[no-untyped-call]
        return raw.detach(), *(_gradient(one) for one in moved)

    return step


def dense(forest: Forest, X: Array) -> Step:
    """Return a step of path products as two products with the 0/1 matrices of D, tree by tree.

    log u = [D = 1] · log s + [D = −1] · log(1 − s) for all trees in one batched product: the form
    that soft forests are usually given in torch. The matrices are one tree's, shared by all, since
    the trees are of one shape.
    """
    n_trees = forest.n_trees
    n, n_leaves = forest.n_nodes // n_trees, forest.n_leaves // n_trees
    D = torch.tensor(matrices.ternary(forest[0].bitvectors))
    goes_right = (D == 1).float().expand(n_trees, n_leaves, n)
    goes_left = (D == -1).float().expand(n_trees, n_leaves, n)
    S = torch.tensor(forest.rows.toarray(), requires_grad=True)
    b = torch.tensor(forest.tests.b, requires_grad=True)
    v = torch.tensor(forest.leaves.v, requires_grad=True)
    Xt = torch.tensor(X.T.copy())

    def step() -> tuple[Tensor, ...]:
        S.grad = b.grad = v.grad = None
        m = (S @ Xt - b[:, None]).view(n_trees, n, -1)
        right = F.logsigmoid(m)
        log_u = torch.bmm(goes_right, right) + torch.bmm(goes_left, right - m)
        raw = torch.einsum("tlb,tlo->bo", log_u.exp(), v.view(n_trees, n_leaves, 1))
        raw.square().mean().backward()  # type: ignore[no-untyped-call]
        return raw.detach(), *(_gradient(one) for one in (S, b, v))

    return step


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.clone()


def projection(name: str, n_leaves: int) -> Step:
    """Return a step of a map of one tree's leaves to the simplex: memberships and a gradient."""
    generator = torch.Generator().manual_seed(0)
    score = torch.randn((1, n_leaves, BATCH), generator=generator).requires_grad_()
    away = torch.randn((1, n_leaves, BATCH), generator=generator)

    def step() -> tuple[Tensor, ...]:
        score.grad = None
        p = MAPS[name](score)
        p.backward(away)  # type: ignore[no-untyped-call]
        return p.detach(), _gradient(score)

    return step


def seconds(steps: Mapping[str, Step], *, turns: int) -> dict[str, float]:
    """Return the median seconds of each step; they take turns, after one that is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(turns):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def require_equal(first: Step, second: Step) -> float:
    """Return the largest difference of two forms' scores and gradients, in units of their spread.

    Raises
    ------
    ArithmeticError
        If it is more than what the order of sums can make.
    """
    largest = 0.0
    for name, a, b in zip(WHAT, first(), second(), strict=True):
        difference = float((a - b).abs().max()) / float(b.std())
        # Float32 sums of up to 14 terms a path, 100 trees and 1,024 rows, in other orders.
        if not (a.shape == b.shape and difference < 1e-4):
            raise ArithmeticError(
                f"the two forms' {name} differ by {difference:.3g} of their deviation."
            )
        largest = max(largest, difference)
    return largest


def process(form: str, n_trees: int, depth: int) -> dict[str, Any]:
    """Return the seconds of one step in a process of its own, and the MB that it adds to the peak.

    Both are None if the process died.
    """
    try:
        return alone("benchmarks.relaxed:one_step", form, n_trees, depth)
    except CannotRunError:
        return {"seconds": None, "mb": None}


def one_step(form: str, n_trees: int, depth: int) -> dict[str, float]:
    """Take a step of one form; return its seconds and what it added to the peak of memory."""
    torch.manual_seed(0)
    forest, X = complete(n_trees, depth), rows()
    # What a first step of torch itself takes is held before.
    ours(complete(2, 3), X, "sigmoid")()
    before = reset_peak()
    step = dense(forest, X) if form == DENSE else ours(forest, X, form)
    start = time.perf_counter()
    step()
    return {"seconds": time.perf_counter() - start, "mb": (held() - before) / 2**20}


def goals(found: Sequence[Row]) -> list[Goal]:
    """Return what a step may take beside the dense product, and a map beside softmax."""
    six, ten, deep = (one(found, what="step", form="sigmoid", depth=d) for d in (6, 10, 14))
    share = ten["mb"] / ten["dense_mb"] if ten.get("mb") and ten.get("dense_mb") else None
    gib = deep["mb"] / 1024 if deep.get("mb") else None
    return [
        Goal("depth 6, dense seconds / ours", ">= 1", six.get("times_faster")),
        Goal("depth 10, dense seconds / ours", ">= 2", ten.get("times_faster")),
        Goal("depth 10, our memory / dense", "<= 1", share),
        Goal("depth 14, memory in GiB", "<= 8", gib),
        *(
            Goal(
                f"{form} / softmax at 1024 leaves, forward and backward",
                "<= 6",
                one(found, what="map", form=form, leaves=1024).get("of_softmax"),
            )
            for form in ("sparsemax", "entmax15")
        ),
    ]


def shown(report: Report) -> str:
    """Return the run as Markdown."""
    steps = where(report["rows"], what="step")
    depths = sorted({row["depth"] for row in steps})
    lines: dict[str, Row] = {"dense product": {}}
    for row in steps:
        lines.setdefault(row["form"], {})[row["depth"]] = _cell(row.get("seconds"), row.get("mb"))
        if row["form"] == "sigmoid":
            dense_cell = _cell(row.get("dense_seconds"), row.get("dense_mb"))
            lines["dense product"][row["depth"]] = dense_cell
    head = [Column("relaxation", "form")]
    head += [Column(f"depth {depth}", lambda row, depth=depth: row.get(depth)) for depth in depths]
    told = [
        f"{row['form']} {row['of_softmax']:.1f} times softmax at {row['leaves']:,} leaves"
        for row in where(report["rows"], what="map")
        if row["form"] != "softmax"
    ]
    text = (
        "Seconds of one step forward and backward, and MB that it needs, of "
        f"{steps[0]['trees'] if steps else 0} trees on 1,024 rows of 32 columns with S, b and v "
        "free. " + (f"The maps alone: {'; '.join(told)}." if told else "")
    )
    body = table(({"form": form} | cells for form, cells in lines.items()), head)
    return "\n\n".join([body, text, measured_by(report)])


def _cell(taken: float | None, mb: float | None) -> str:
    if taken is None:
        return ""
    return f"{taken:.3g} s" + ("" if mb is None else f", {mb:,.0f} MB")


def figures(found: Sequence[Row]) -> list[Row]:
    """Return the rows to six digits, without those of the map of softmax itself."""
    return [six_digits(row) for row in found if (row["what"], row["form"]) != ("map", "softmax")]


BENCHMARK: Final = Benchmark("relaxed", cases, measure, goals, {"table": shown}, figures)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
