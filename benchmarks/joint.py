"""Forests as heads of networks, trained with the encoders before them, hardened and exported whole.

    python -m benchmarks.joint --data FOLDER [--json] [--quick] [--save]

An encoder of 32 features is trained under a linear head, for as many epochs as follow. A tree of at
most 32 leaves, and a random forest of 10, are grown on its frozen features; each is then relaxed
and trained further together with the encoder, half on the classes and half on the linear head's
probabilities, and hardened in place. Accuracies are on the test set; the epoch is the one whose
hard network has the least log loss on a part of the training rows, which varies less than their
accuracy.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

import bitvec
from benchmarks import datasets
from benchmarks.report import Column, Goal, Row, Table, groups, measured_by, six_digits
from benchmarks.runner import DATA as DATA_OPTION
from benchmarks.runner import Benchmark, run
from bitvec.runtime.train.relax import SoftForest, harden_

DATA: Final = ("adult", "usps", "fashion_mnist")
SEEDS: Final = (0, 1, 2)
WIDTH: Final = 32
LEAVES: Final = 32
_BATCH: Final = 128
_MOST_PICTURES: Final = 6_000
"""Training pictures that are used, so that a run stays short; the test set is whole."""
_EPOCHS: Final = 16
"""Epochs of the linear head."""
_SCHEDULES: Final = ((8, 0.003), (16, 0.006))
"""Epochs of joint training and their learning rate; the choice rows say which is taken."""
_GAMMA: Final = 8.0
"""Steepness in the last epoch of joint training, from 1 on, towards the hard tests."""
_TAUGHT: Final = 0.5
"""Share of the linear head's probabilities in what a forest is trained on."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Inputs and classes, with the rows for training, for choice and for the test."""

    x: Tensor
    y: Tensor
    train: Tensor
    choice: Tensor
    test: Tensor


class Embeddings(nn.Module):
    """Categories as learned vectors beside standardised numbers; a code may be unknown.

    Parameters
    ----------
    n_codes : list of int
        Of each column of categories, -1 of a column of numbers.
    """

    def __init__(self, n_codes: list[int], width: int = 4) -> None:
        super().__init__()
        self.numbers = [k for k, n in enumerate(n_codes) if n < 0]
        self.categories = [k for k, n in enumerate(n_codes) if n >= 0]
        self.tables = nn.ModuleList(nn.Embedding(n_codes[k] + 1, width) for k in self.categories)
        self.width = len(self.numbers) + width * len(self.categories)

    def forward(self, x: Tensor) -> Tensor:
        """Return F (batch, width) of rows whose unknown codes are the last of each column."""
        pairs = zip(self.tables, self.categories, strict=True)
        vectors = [table(x[:, k].to(torch.int64)) for table, k in pairs]
        return torch.cat([x[:, self.numbers], *vectors], dim=1)


def encoder(x: Tensor, n_codes: list[int]) -> nn.Sequential:
    """Return two convolutions for pictures, embeddings and a layer for tables; then 32 features."""
    if x.ndim == 4:
        side = x.shape[2] // 4
        layers = [
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * side * side, WIDTH)),
        ]
    else:
        embeddings = Embeddings(n_codes)
        layers = [
            *(embeddings, nn.Linear(embeddings.width, 64), nn.ReLU()),
            nn.Linear(64, WIDTH),
        ]
    return nn.Sequential(*layers, nn.BatchNorm1d(WIDTH))


def load(data: Path, name: str, seed: int) -> tuple[Rows, list[int]]:
    """Return the rows of a data set, and the number of codes of each column."""
    table = datasets.read(data, name)
    assert table.n_train is not None
    X, n_codes = table.X, [-1] * table.X.shape[1]
    if table.categorical:
        for k in table.categorical:
            n_codes[k] = int(np.nanmax(X[:, k])) + 1
            X[:, k] = np.where(np.isnan(X[:, k]), n_codes[k], X[:, k])
        numbers = [k for k, n in enumerate(n_codes) if n < 0]
        part = X[: table.n_train, numbers]
        X[:, numbers] = (X[:, numbers] - part.mean(axis=0)) / part.std(axis=0)
        x = torch.tensor(X, dtype=torch.float32)
    else:
        side = round(X.shape[1] ** 0.5)
        x = torch.tensor(X / X.max(), dtype=torch.float32).view(-1, 1, side, side)
    order = torch.randperm(table.n_train, generator=torch.Generator().manual_seed(seed))
    order = order[:_MOST_PICTURES] if x.ndim == 4 else order
    n_choice = len(order) * 15 // 100
    test = torch.arange(table.n_train, len(x))
    return Rows(x, torch.tensor(table.y), order[n_choice:], order[:n_choice], test), n_codes


def accuracy(network: nn.Module, rows: Rows, which: Tensor) -> float:
    """Return the share of rows of the right class."""
    found = answers(network, rows.x[which]).argmax(1)
    return float((found == rows.y[which]).double().mean())


def fit(
    network: nn.Module,
    rows: Rows,
    loss: Callable[[Tensor, Tensor], Tensor],
    epochs: int,
    rate: float,
) -> Iterator[int]:
    """Train; yield the number of each epoch before it begins, then once more at the end."""
    n_steps = epochs * -(-len(rows.train) // _BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=n_steps)
    for epoch in range(epochs):
        yield epoch
        network.train()
        for batch in rows.train[torch.randperm(len(rows.train))].split(_BATCH):
            optimiser.zero_grad()
            loss(network(rows.x[batch]), rows.y[batch]).backward()
            optimiser.step()
            schedule.step()
    yield epochs


def log_loss(p: Tensor, y: Tensor) -> Tensor:
    """Return the cross entropy of probabilities p and y, (batch, n_classes)."""
    return -(y * p.clamp_min(1e-6).log()).sum(dim=1).mean()


def answers(network: nn.Module, x: Tensor) -> Tensor:
    """Return what a network answers, in parts and without gradient."""
    network.eval()
    with torch.no_grad():
        return torch.cat([network(part) for part in x.split(1000)])


def cases(options: Namespace) -> Iterable[tuple[str, int]]:
    """Return data sets and seeds."""
    return [(name, seed) for name in DATA for seed in (SEEDS[:1] if options.quick else SEEDS)]


def measure(case: tuple[str, int], options: Namespace) -> Iterator[Row]:
    """Yield the accuracies of the linear head, the tree and the forest."""
    (name, seed), quick = case, options.quick
    torch.manual_seed(seed)
    rows, n_codes = load(options.data, name, seed)
    base = encoder(rows.x, n_codes)
    n_classes = int(rows.y.max()) + 1
    linear = nn.Sequential(base, nn.Linear(WIDTH, n_classes))
    for _ in fit(linear, rows, nn.functional.cross_entropy, 1 if quick else _EPOCHS, 0.003):
        pass
    row: Row = {"data": name, "seed": seed, "linear": accuracy(linear, rows, rows.test)}
    Z = answers(base, rows.x[rows.train]).numpy()
    one_hot = nn.functional.one_hot(rows.y, n_classes).float()
    taught = replace(rows, y=torch.lerp(one_hot, answers(linear, rows.x).softmax(1), _TAUGHT))
    heads: dict[str, Any] = {
        "tree": DecisionTreeClassifier(max_leaf_nodes=LEAVES, random_state=seed),
        "forest": RandomForestClassifier(10, max_leaf_nodes=LEAVES, random_state=seed),
    }
    row["exported"] = True
    for head, model in heads.items():
        model.fit(Z, rows.y[rows.train].numpy())
        forest = bitvec.convert(model)
        assert isinstance(forest, bitvec.Forest)
        network, least = None, np.inf
        for epochs, rate in _SCHEDULES[: 1 if quick else None]:
            start = _soft(base, forest, Z)
            for hard in _hardened_by_epoch(start, taught, 1 if quick else epochs, rate):
                if network is None:
                    row[f"{head}_frozen"] = accuracy(hard, rows, rows.test)
                p = answers(hard, rows.x[rows.choice]).float()
                loss = float(log_loss(p, one_hot[rows.choice]))
                if network is None or loss < least:
                    least, network = loss, hard
        assert network is not None
        row[f"{head}_joint"] = accuracy(network, rows, rows.test)
        row["exported"] &= exports(network, rows.x[rows.test[:500]])
    yield row


def _soft(base: nn.Module, forest: bitvec.Forest, Z: np.ndarray) -> nn.Sequential:
    """Return a copy of an encoder under a relaxed forest."""
    soft = bitvec.to_torch(forest, "sigmoid", leaves="logits").calibrate(Z)
    return nn.Sequential(copy.deepcopy(base), soft)


def _hardened_by_epoch(
    network: nn.Sequential, rows: Rows, epochs: int, rate: float
) -> Iterator[nn.Module]:
    """Train a network; yield it hardened before each epoch and at the end."""
    gammas, soft = np.linspace(1, _GAMMA, epochs), cast(SoftForest, network[1])
    for epoch in fit(network, rows, log_loss, epochs, rate):
        soft.gamma = float(gammas[min(epoch, epochs - 1)])
        yield hardened(network)


def hardened(network: nn.Sequential) -> nn.Module:
    """Return a copy of a network with its forest hardened, ready to run."""
    hard = copy.deepcopy(network)
    harden_(hard)
    return hard.requires_grad_(False).eval()


def exports(network: nn.Module, x: Tensor) -> bool:
    """Return whether encoder and hard forest, as one exported program, give the same bits."""
    batch = torch.export.Dim("batch")
    program = torch.export.export(network, (x[:2],), dynamic_shapes=({0: batch},))
    with torch.no_grad():
        return torch.equal(program.module()(x), network(x))


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield what heads have to reach, by the mean of the seeds of each data set."""
    closed: list[float] = []
    behind: list[float] = []
    for found in groups(rows, "data").values():
        linear, frozen, tree, forest = (
            float(np.mean([row[name] for row in found]))
            for name in ("linear", "tree_frozen", "tree_joint", "forest_joint")
        )
        closed.append((tree - frozen) / (linear - frozen) if linear > frozen else 1.0)
        behind.append(100 * (linear - forest))
    second = sorted(closed)[-2] if len(closed) > 1 else None
    name = "share of the gap from frozen tree to linear head that one tree closes, second best"
    yield Goal(name, ">= 0.8", second)
    worst = max(behind, default=None)
    yield Goal("points by which a forest of 10 is behind the linear head, worst", "<= 0.3", worst)
    unequal = sum(not row["exported"] for row in rows)
    yield Goal("programs of encoder and forest that differ in a bit", "0", unequal, True)


BENCHMARK: Final = Benchmark(
    "joint",
    cases,
    measure,
    goals,
    {
        "table": Table(
            (
                Column("data", "data"),
                Column("seed", "seed"),
                Column("linear head", "linear", ".4f"),
                Column("tree of 32 leaves, frozen features", "tree_frozen", ".4f"),
                Column("trained together, hard", "tree_joint", ".4f"),
                Column("forest of 10, frozen features", "forest_frozen", ".4f"),
                Column("trained together, hard", "forest_joint", ".4f"),
            ),
            list,
            after=measured_by,
        )
    },
    options=DATA_OPTION,
    needs=("data",),
    figures=lambda rows: [six_digits(row) for row in rows],
    kept=True,
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
