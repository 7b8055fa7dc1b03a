"""treegrad: LightGBM's trees as a soft torch model that moves S's scales, b and v.

Of a few step sizes and ends of the temperature, the rows held out choose one, for the soft model
and for the hard one apart. The hard one routes by the signs of the trained margins.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import torch
import treegrad

from benchmarks.foreign.held_out import held_out_score
from benchmarks.jobs import Array, Job, read

SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {},  # its own: steps of 0.05, 1000 of them, batches of 32
    {"step_size": 0.005},
    {"step_size": 0.0005},
)
UNTRAINED: Final = {"num_iters": 0}
BLOCK: Final = 256


def hard_scores(model: Any, X: Array) -> Array:
    """Return raw scores of the trained trees, each row in one leaf of each."""
    weight = (model.mask * model.coef[:, None]).double()
    inter, route, leaf = (part.double() for part in (model.inter, model.route, model.leaf))
    blocks = []
    for start in range(0, len(X), BLOCK):
        rows = torch.as_tensor(X[start : start + BLOCK], dtype=torch.float64)
        left = torch.einsum("bf,tfs->bts", rows, weight) + inter < 0
        missed = torch.cat([~left, left], dim=2).double()
        reached = torch.einsum("bts,tls->btl", missed, route) == 0
        trees = torch.where(reached, leaf, 0.0).sum(dim=2)
        scores = trees.new_zeros(len(trees), int(model.class_index.max()) + 1)
        blocks.append(scores.index_add_(1, model.class_index, trees))
    return np.asarray(torch.cat(blocks).detach())


def answers(job: Job, scores: Array) -> Array:
    """Return labels, or a regressor's numbers, of raw scores of (batch, n_outputs)."""
    if not job.facts["is_classifier"]:
        return scores[:, 0]
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


def soft_scores(model: Any, X: Array) -> Array:
    """Return raw scores of the soft model."""
    with torch.no_grad():
        blocks = [
            model(torch.as_tensor(X[start : start + BLOCK])) for start in range(0, len(X), BLOCK)
        ]
    return np.asarray(torch.cat(blocks).reshape(len(X), -1))


def tuned(job: Job, source: Any, settings: dict[str, Any]) -> tuple[Any, float]:
    """Return the soft model of the source's trees, trained, and the CPU seconds it took."""
    torch.manual_seed(job.facts["seed"])
    source.autograd_config = settings
    source.is_partial = False  # or it goes on with the model that it trained last
    start = time.process_time()
    rows = job.rows
    source.partial_fit(rows["X"], rows["y"])
    return source.model_, time.process_time() - start


def run(folder: str) -> dict[str, Any]:
    """Run the job of a folder; return what is to be told of it."""
    job = read(folder)
    facts, rows = job.facts, job.rows
    test = rows["test_X"]
    torch.set_num_threads(1)
    made = treegrad.TGDClassifier if job.facts["is_classifier"] else treegrad.TGDRegressor
    source = made(num_leaves=facts["leaves"], n_estimators=facts["trees"])
    source.fit(rows["X"], rows["y"])
    source.base_model_.booster_.save_model(job.path)
    transferred, _ = tuned(job, source, UNTRAINED)
    predicted = {
        "start": np.asarray(source.base_model_.predict(test)),
        "transferred": answers(job, soft_scores(transferred, test)),
    }
    told: dict[str, Any] = {"seconds": 0.0}
    for settings in SETTINGS:
        model, seconds = tuned(job, source, settings)
        told["seconds"] += seconds
        for kind, scores in (("soft", soft_scores), ("hard", hard_scores)):
            held_out = held_out_score(job, answers(job, scores(model, rows["held_out_X"])))
            if kind not in told or held_out > told[kind]["held_out"]:
                told[kind] = {"held_out": held_out, "settings": settings}
                predicted[kind] = answers(job, scores(model, test))
    job.answer(**predicted)
    return told
