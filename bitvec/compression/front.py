"""Points of a compression: exact forests with what they cost and how well they answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bitvec import certification
from bitvec.compression import model_costs
from bitvec.compression.candidate_recipes import Recipe
from bitvec.core.arrays import ArrayLike
from bitvec.core.forest import Forest
from bitvec.errors import needs
from bitvec.runtime.export.c.compiled import oracle_of
from bitvec.runtime.export.c.estimate import CSource
from bitvec.verify.certificates import Certificate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A model and its measures.

    Parameters
    ----------
    recipe : str
    forest : Forest
        Exact: its thresholds and leaves are the rounded numbers.
    bytes : int
        Of the tables that a prediction reads, in the smallest exact header of C99.
    loss, score : float
        On the rows held out: log loss and accuracy, or squared error and its root. Of a refitted
        point they are those that its recipe had before, on rows that it had not seen.
    code_bytes, onnx_bytes : int, optional
        Of the code for this machine at -Os, and of the ONNX file; None where not measured.
    microseconds : float, optional
        For a row on one thread, by the compiled header or else the engine.
    refitted : bool
        Whether the forest was fitted anew to all rows.
    again : Recipe, optional
        By which it can be.
    """

    recipe: str
    forest: Forest
    bytes: int
    loss: float
    score: float
    code_bytes: int | None = None
    onnx_bytes: int | None = None
    microseconds: float | None = None
    refitted: bool = False
    again: Recipe | None = None

    def header(self, name: str = "model") -> CSource:
        """Return the header of C99 that `bytes` is counted of."""
        return model_costs.header_of(self.forest, name)

    def certificate(self, X: ArrayLike | None = None) -> Certificate:
        """Compile the header and compare it with the forest, row by row, and certify the result.

        Parameters
        ----------
        X : (batch, n_features), optional
            Rows to compare on beside those that are made for each node.

        Raises
        ------
        MissingCompilerError
            If there is no C compiler.
        """
        oracle = oracle_of(self.header(), classes=self.forest.output.classes)
        return certification.compared(
            self.forest,
            oracle,
            X,
            exported=True,
            engine="auto",
            seed=0,
            allow_values_only=False,
            progress=False,
        )

    def record(self) -> dict[str, Any]:
        """Return the measures by name."""
        return {
            "recipe": self.recipe,
            "bytes": self.bytes,
            "code_bytes": self.code_bytes,
            "onnx_bytes": self.onnx_bytes,
            "microseconds": self.microseconds,
            "trees": self.forest.n_trees,
            "leaves": self.forest.n_leaves,
            "loss": self.loss,
            "score": self.score,
            "refitted": self.refitted,
        }

    def __repr__(self) -> str:
        return (
            f"Point({self.recipe}: {self.bytes:,} bytes, loss {self.loss:.4g}, "
            f"score {self.score:.4g})"
        )


class Front(tuple[Point, ...]):
    """Points of which none is both larger and worse than another, the smallest first.

    Parameters
    ----------
    points : iterable of Point
    metric : str
        Name of their scores.
    """

    metric: str

    def __new__(cls, points: Iterable[Point], metric: str = "score") -> Front:
        """Keep the points that no other one is better than."""
        kept: list[Point] = []
        for point in sorted(points, key=lambda one: (one.bytes, one.loss)):
            if not kept or point.loss < kept[-1].loss:
                kept.append(point)
        self = super().__new__(cls, kept)
        self.metric = metric
        return self

    def records(self) -> list[dict[str, Any]]:
        """Return the measures of each point."""
        return [point.record() for point in self]

    def __repr__(self) -> str:
        """Return a table."""
        header = ["bytes", "leaves", "us a row", "loss", self.metric, "recipe"]
        rows = [
            [
                f"{point.bytes:,}",
                f"{point.forest.n_leaves:,}",
                "" if point.microseconds is None else f"{point.microseconds:.3g}",
                f"{point.loss:.4g}",
                f"{point.score:.4g}",
                point.recipe,
            ]
            for point in self
        ]
        return _aligned([header, *rows])

    def plot(self) -> Figure:
        """Draw loss and score over bytes.

        Returns
        -------
        matplotlib.figure.Figure
            `figure.savefig(path)` keeps it.

        Raises
        ------
        MissingLibraryError
            If matplotlib is not installed.
        """
        with needs("matplotlib", "plot", "Front.plot"):
            from matplotlib.figure import Figure
        figure = Figure(figsize=(7.0, 5.0), layout="constrained")
        loss, score = figure.subplots(2, 1, sharex=True)
        size = [point.bytes for point in self]
        loss.plot(size, [point.loss for point in self], color="C3", marker=".")
        loss.set_ylabel("validation loss")
        score.plot(size, [point.score for point in self], color="C0", marker=".")
        score.set_ylabel(f"validation {self.metric}")
        score.set_xscale("log", base=2)
        score.xaxis.set_major_formatter("{x:,.0f}")
        score.set_xlabel("bytes of tables")
        return figure


def _aligned(rows: list[list[str]]) -> str:
    """Return lines whose columns stand under each other, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]))
    return "\n".join(lines)
