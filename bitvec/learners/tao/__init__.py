"""Tree alternating optimisation: axis-aligned and oblique trees, fitted or refined."""

from bitvec.learners.tao.fit import TAOResult, fit_tao
from bitvec.learners.tao.node_step import NodeStatistics, Verdict
from bitvec.learners.tao.optimise import Iteration
from bitvec.learners.tao.path import PathPoint, tao_path
from bitvec.learners.tao.refine import RefineResult, tao_refine

__all__ = [
    "Iteration",
    "NodeStatistics",
    "PathPoint",
    "RefineResult",
    "TAOResult",
    "Verdict",
    "fit_tao",
    "tao_path",
    "tao_refine",
]
