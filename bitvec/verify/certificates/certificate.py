"""Certificates: that a forest agrees with what it came from, or with what was made of it.

A certificate says nothing of rows that the oracle does not accept.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path

from bitvec.core.forest import Forest
from bitvec.files import atomic
from bitvec.verify.certificates import frame_result
from bitvec.verify.certificates.difference import Difference
from bitvec.verify.certificates.digest import forest_digest
from bitvec.verify.certificates.frame_result import DIFFER, FrameResult
from bitvec.verify.certificates.json_fields import to_record

FORMAT = "bitvec.certificate"
VERSION = 5
LISTED = 10_000
"""Most nodes that a list of a certificate names; the counts are always complete."""

CIRCUMSTANCES = frozenset({"oracle_version", "versions", "platform", "created"})
"""Fields that may differ when a comparison is made again with the same result."""

PROVED, TWO_SIDED, VALUES_ONLY = "proved", "two-sided", "values only"
GRADES = (PROVED, TWO_SIDED, VALUES_ONLY)
"""Grounds of a comparison, from the strongest: see `Certificate.grade`."""

LEAF_IDS, LEAF_VALUES, RAW = "leaf ids", "leaf values", "raw scores"
LABELS, PREDICTIONS, SCORES = "labels", "predictions", "transformed scores"
PARTS = (LEAF_IDS, LEAF_VALUES, RAW, SCORES, LABELS, PREDICTIONS)
"""Parts that can be compared, in the order in which certificates name it."""


def listing(parts: tuple[str, ...]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of a comparison of a forest with an oracle.

    Parameters
    ----------
    grade : "proved", "two-sided" or "values only"
        "proved": the oracle's own trees, node by node, are the same function of every accepted row
        as the forest's. "two-sided": rows for each node of the forest, with all other columns drawn
        around all thresholds, and the oracle's leaf ids one-to-one with the forest's leaves.
        "values only": the oracle showed neither, so that a side of it that no node of the forest
        asks for may have stayed unseen.
    allow_values_only : bool
        Whether "values only" suffices to pass.
    compared : str
        Of "leaf ids", "leaf values", "raw scores", "transformed scores", "labels" and
        "predictions" those that the oracle gives and some row showed: "leaf ids and raw scores",
        for example.
    oracle, oracle_version : str
        The library that answered.
    source, source_version : str or None
        The library that the forest was converted from, as it was then.
    exact : bool
        Whether raw scores must be equal bit for bit.
    allowed_difference : float or None
        Otherwise, how far they may lie apart; None where nothing bounds them and leaf ids decide.
    n_nodes, n_reachable, n_covered : int
        Nodes; those that an accepted row can reach; those of them that showed every outcome that
        their paths admit.
    unreachable : tuple of (tree, node)
        Nodes within their trees, the first 10,000.
    missed : tuple of (tree, node, outcomes)
        Reachable nodes with the outcomes that they did not show, the first 10,000.
    n_probes, n_rows, n_rows_left_out : int
        Rows made for the nodes; rows of the caller's compared, and left out as not accepted.
    n_answered : int
        Rows on which predictions, transformed scores and labels were compared: all, or, where raw
        scores need not be equal, those on which they are.
    n_structure_mismatches : int
        Places at which the oracle's trees are another function, the first 10.
    n_unseen_leaves : int
        Leaves of the forest at which no row was seen; where coverage is 1, no accepted row reaches
        them.
    n_leaf_mismatches : int
        Pairs of a row and a tree.
    n_value_mismatches : int
        Leaves of the forest whose values differ from those that the model stores, in any bit.
    n_raw_mismatches, n_label_mismatches : int
        Rows.
    max_ulp, max_difference, raw_dtype
        Largest difference of raw scores in ulps of `raw_dtype`, and as a number.
    max_score_ulp, allowed_score_ulp : int
        Largest difference in ulps of predictions, or of scores after the post-transform, and how
        large it may be: 0 where the post-transform is at most a product, 8 where libraries of
        mathematics round exponentials each in their way, more where the oracle approximates it.
        Below the smallest normal number such predictions count as equal.
    differences : tuple of Difference
        The first of each kind.
    exclusions : tuple of str
        What was not compared, in sentences.
    digest, rows_digest : str
        SHA-256 of the forest, and of the caller's rows (None without).
    seed : int
    versions : dict
        Of bitvec, Python and NumPy.
    platform, created : str
        The machine, and the time in UTC.
    frames : tuple of FrameResult
        What data frames have shown that both sides were handed.
    """

    grade: str
    allow_values_only: bool
    compared: str
    oracle: str
    oracle_version: str
    source: str | None
    source_version: str | None
    exact: bool
    allowed_difference: float | None
    n_trees: int
    n_nodes: int
    n_reachable: int
    n_covered: int
    unreachable: tuple[tuple[int, int], ...]
    missed: tuple[tuple[int, int, str], ...]
    n_probes: int
    n_rows: int
    n_rows_left_out: int
    n_answered: int
    n_structure_mismatches: int
    n_unseen_leaves: int
    n_leaf_mismatches: int
    n_value_mismatches: int
    n_raw_mismatches: int
    n_label_mismatches: int
    max_ulp: int
    max_difference: float
    max_score_ulp: int
    allowed_score_ulp: int
    raw_dtype: str
    differences: tuple[Difference, ...]
    exclusions: tuple[str, ...]
    digest: str
    rows_digest: str | None
    seed: int
    versions: dict[str, str]
    platform: str
    created: str
    frames: tuple[FrameResult, ...] = ()

    @property
    def coverage(self) -> float:
        """Covered nodes over reachable ones; 1 for a forest without nodes."""
        return self.n_covered / self.n_reachable if self.n_reachable else 1.0

    @property
    def n_unreachable(self) -> int:
        """Nodes that no accepted row can reach."""
        return self.n_nodes - self.n_reachable

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the compared parts, one by one."""
        return tuple(self.compared.replace(" and ", ", ").split(", "))

    @property
    def raw_agrees(self) -> bool:
        """True if raw scores are as near as they must be."""
        if self.exact:
            return self.n_raw_mismatches == 0
        if self.allowed_difference is None:
            return LEAF_IDS in self.parts
        return self.max_difference <= self.allowed_difference

    @property
    def passed(self) -> bool:
        """True if all that was compared agrees, and the grade suffices.

        Rows must have been compared, and coverage must be 1 where no proof covers every row.
        """
        return (
            self.n_structure_mismatches == 0
            and self.n_leaf_mismatches == 0
            and self.n_value_mismatches == 0
            and self.raw_agrees
            and self.n_label_mismatches == 0
            and self.max_score_ulp <= self.allowed_score_ulp
            and (self.grade == PROVED or self.n_covered == self.n_reachable)
            and (self.grade != VALUES_ONLY or self.allow_values_only)
            and self.n_probes + self.n_rows > 0
            and all(frame.outcome != DIFFER for frame in self.frames)
        )

    def matches(self, forest: Forest) -> bool:
        """Return whether this certificate is about exactly this forest."""
        sizes = (self.n_trees, self.n_nodes) == (forest.n_trees, forest.n_nodes)
        return sizes and self.digest == forest_digest(forest)

    def changes(self, again: Certificate) -> tuple[str, ...]:
        """Return the fields in which a comparison made again found something else.

        Examples
        --------
        ``certify(forest, model, X, seed=before.seed)`` makes the comparison of `before` again.
        """
        names = (field.name for field in fields(self) if field.name not in CIRCUMSTANCES)
        # By text, in which a difference that is NaN equals itself.
        return tuple(
            name for name in names if repr(getattr(self, name)) != repr(getattr(again, name))
        )

    def __repr__(self) -> str:
        return f"Certificate({self._headline()})"

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """Return what was shown, in a few lines."""
        coverage = (
            "1" if self.n_covered == self.n_reachable else f"{min(self.coverage, 0.9999):.4f}"
        )
        lines = [
            self._headline(),
            f"coverage {coverage}: {self.n_covered} of {self.n_reachable} reachable nodes showed "
            f"every outcome, {self.n_unreachable} of {self.n_nodes} cannot be reached",
            f"rows: {self.n_probes} made for the nodes, {self.n_rows} given",
            *self._findings(),
            *frame_result.summary(self.frames),
        ]
        if self.grade == PROVED:
            lines.insert(1, f"trees: the same function as {self.oracle}'s own, node by node")
        if self.n_structure_mismatches:
            lines.insert(1, f"trees: {self.n_structure_mismatches} places differ")
        if self.n_unseen_leaves:
            lines.append(f"leaves: {self.n_unseen_leaves} were reached by no row")
        if self.grade == VALUES_ONLY and not self.allow_values_only:
            lines.append(
                "not enough: a certificate of values only passes with `allow_values_only` "
                "(--allow-values-only)"
            )
        if not self.passed:
            lines += [f"difference: {difference}" for difference in self.differences[:3]]
        lines += [
            f"not shown: tree {tree}, node {node}: {outcomes}"
            for tree, node, outcomes in self.missed[:3]
        ]
        lines += [f"note: {sentence}" for sentence in self.exclusions]
        return "\n".join(lines)

    def _headline(self) -> str:
        return (
            f"{'PASSED' if self.passed else 'FAILED'}, {self.grade}: forest against {self.oracle} "
            f"{self.oracle_version}, {self.compared}"
        )

    def _findings(self) -> list[str]:
        """Return a line for each part that was compared."""
        allowed = "" if self.exact else f", at most {self.allowed_difference} allowed"
        scores = f"differ by at most {self.max_score_ulp} ulp, {self.allowed_score_ulp} allowed"
        n_rows = self.n_probes + self.n_rows
        on = (
            ""
            if self.n_answered == n_rows
            else f"; compared on {self.n_answered} of {n_rows} rows, whose raw scores are equal"
        )
        alike = "; subnormal ones count as alike" if self.allowed_score_ulp else ""
        lines = {
            LEAF_IDS: f"{self.n_leaf_mismatches} differ",
            LEAF_VALUES: f"{self.n_value_mismatches} leaves differ",
            RAW: f"{self.n_raw_mismatches} rows differ, by at most {self.max_ulp} ulp of "
            f"{self.raw_dtype or 'no dtype'} ({self.max_difference:.3g}{allowed})",
            SCORES: scores + on + alike,
            LABELS: f"{self.n_label_mismatches} rows differ{on}",
            PREDICTIONS: scores + on + alike,
        }
        return [f"{part}: {lines[part]}" for part in self.parts]

    def to_json(self) -> str:
        """Return all of it as JSON; numbers that JSON lacks become "nan", "inf" and "-inf"."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "passed": self.passed,
            "coverage": self.coverage,
            **to_record(self),
        }
        return json.dumps(record, indent=1, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the JSON; the file appears under its name only when it is whole.

        Raises
        ------
        OSError
            If the path cannot be written.
        """
        return atomic.write(path, (self.to_json() + "\n").encode())
