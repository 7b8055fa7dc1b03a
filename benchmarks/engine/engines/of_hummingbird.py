"""hummingbird's three strategies, in torch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.engine.engines.calls import Calls, Job, chosen, single_precision
from benchmarks.hummingbird import readable
from benchmarks.worker import CannotRunError

MOST_BYTES = 4e9
"""Bytes of a model's largest array, and of an intermediate tensor of the gemm strategy, at most."""


class _Hummingbird:
    strategy: str

    def __init__(self, job: Job) -> None:
        from hummingbird.ml import convert

        self.job = job
        model, self.size = _model(job)
        if self.bytes > MOST_BYTES:
            raise CannotRunError(f"its arrays would have {self.bytes / 1e9:,.0f} GB")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = convert(
                model,
                "torch",
                single_precision(job.rows()[:10]),
                extra_config={"tree_implementation": self.strategy},
            )

    @property
    def bytes(self) -> float:
        """Bytes of the largest of its arrays, about."""
        return 0.0

    def calls(self, threads: int) -> Calls:
        """Use so many threads, in the whole process."""
        torch.set_num_threads(threads)
        model = self.model
        scores = model.predict if self.job.regression else model.predict_proba
        predict = chosen(
            self.job.asks, values=model.predict, labels=model.predict, probabilities=scores
        )
        # gemm answers every node of every tree, the others hold one number a tree and row.
        gemm = self.strategy == "gemm"
        most = int(MOST_BYTES / (4.0 * self.size.trees * self.size.leaves)) if gemm else None
        return Calls(predict, scores, rows=single_precision, most_rows=most)


class Gemm(_Hummingbird):
    """Products with dense matrices of all nodes and paths."""

    strategy = "gemm"

    @property
    def bytes(self) -> float:
        """Bytes of the matrices of paths."""
        return 4.0 * self.size.trees * self.size.leaves**2


class TreeTrav(_Hummingbird):
    """All trees step down at once by gathers."""

    strategy = "tree_trav"


class PerfTreeTrav(_Hummingbird):
    """The same of trees made complete."""

    strategy = "perf_tree_trav"

    @property
    def bytes(self) -> float:
        """Bytes of the complete trees."""
        return 8.0 * self.size.trees * 2.0**self.size.depth


@dataclass(frozen=True, slots=True)
class _Size:
    """Number of trees, the most leaves of one, and the most levels."""

    trees: int
    leaves: int
    depth: int


def _model(job: Job) -> tuple[Any, _Size]:
    if job.library == "xgboost":
        import xgboost

        model = xgboost.XGBRegressor() if job.regression else xgboost.XGBClassifier()
        model.load_model(job.model)
        texts = readable(model).get_booster().get_dump()
        leaves = max(text.count("leaf=") for text in texts)
        depth = max(line.count("\t") for text in texts for line in text.splitlines())
        return model, _Size(len(texts), leaves, depth)
    if job.library == "lightgbm":
        import lightgbm

        model = lightgbm.Booster(model_file=str(job.model))
        trees = model.dump_model()["tree_info"]
        leaves = max(tree["num_leaves"] for tree in trees)
        return model, _Size(len(trees), leaves, max(_depth(t["tree_structure"]) for t in trees))
    from benchmarks.engine.engines.of_native import sklearn_model

    model = sklearn_model(job)
    if hasattr(model, "_predictors"):
        grown = [tree for trees in model._predictors for tree in trees]
        leaves = max(tree.get_n_leaf_nodes() for tree in grown)
        return model, _Size(len(grown), leaves, max(tree.get_max_depth() for tree in grown))
    grown = [tree.tree_ for tree in getattr(model, "estimators_", [model])]
    leaves = max(tree.n_leaves for tree in grown)
    return model, _Size(len(grown), leaves, max(tree.max_depth for tree in grown))


def _depth(root: dict[str, Any]) -> int:
    level, depth = [root], -1
    while level:
        depth += 1
        sides = ("left_child", "right_child")
        level = [node[side] for node in level if "left_child" in node for side in sides]
    return depth
