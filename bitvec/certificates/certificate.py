"""Certificates: that a forest agrees with what it came from, or with what was made of it.

`compare` joins a forest and a `Subject` over the rows of `bitvec.probing` and rows of the caller's,
and states what was seen. A certificate says nothing of rows that the subject does not accept.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bitvec import reference
from bitvec.arrays import Array
from bitvec.certificates.comparison import (
    Difference,
    Tally,
    accepted_rows,
    numbering,
    rounding_bound,
)
from bitvec.certificates.digest import array_digest, forest_digest
from bitvec.certificates.fields import read_fields, to_record
from bitvec.errors import FileFormatError
from bitvec.forest import Forest
from bitvec.probing.rows import Coverage, probe_rows
from bitvec.subject import Subject

FORMAT = "bitvec.certificate"
VERSION = 1
MAX_BYTES = 1 << 28
"""Largest file that is read as a certificate."""
LISTED = 10_000
"""Most nodes that a list of a certificate names; the counts are always complete."""

LEAVES_AND_RAW = "leaf ids and raw scores"
RAW_ONLY = "raw scores only"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a comparison of a forest with a subject has shown.

    Parameters
    ----------
    compared : str
        "leaf ids and raw scores", or "raw scores only" where the subject exposes no leaf ids.
    subject, subject_version : str
        The library that answered.
    source, source_version : str or None
        The library that the forest was lifted from, as it was at the lift.
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
    n_leaf_mismatches : int
        Pairs of a row and a tree.
    n_raw_mismatches : int
        Rows.
    max_ulp, max_difference, raw_dtype
        Largest difference of raw scores in ulps of `raw_dtype`, and as a number.
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
    """

    compared: str
    subject: str
    subject_version: str
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
    n_leaf_mismatches: int
    n_raw_mismatches: int
    max_ulp: int
    max_difference: float
    raw_dtype: str
    differences: tuple[Difference, ...]
    exclusions: tuple[str, ...]
    digest: str
    rows_digest: str | None
    seed: int
    versions: dict[str, str]
    platform: str
    created: str

    @property
    def coverage(self) -> float:
        """Covered nodes over reachable ones; 1 for a forest without nodes."""
        return self.n_covered / self.n_reachable if self.n_reachable else 1.0

    @property
    def n_unreachable(self) -> int:
        """Nodes that no accepted row can reach."""
        return self.n_nodes - self.n_reachable

    @property
    def raw_agrees(self) -> bool:
        """Whether raw scores are as near as they must be."""
        if self.exact:
            return self.n_raw_mismatches == 0
        if self.allowed_difference is None:
            return self.compared == LEAVES_AND_RAW
        return self.max_difference <= self.allowed_difference

    @property
    def passed(self) -> bool:
        """Whether no leaf differs, raw scores agree, rows were compared and coverage is 1."""
        return (
            self.n_leaf_mismatches == 0
            and self.raw_agrees
            and self.n_covered == self.n_reachable
            and self.n_probes + self.n_rows > 0
        )

    def matches(self, forest: Forest) -> bool:
        """Return whether this certificate is about exactly this forest."""
        return self.digest == forest_digest(forest)

    def summary(self) -> str:
        """Return what was shown, in a few lines."""
        coverage = (
            "1" if self.n_covered == self.n_reachable else f"{min(self.coverage, 0.9999):.4f}"
        )
        lines = [
            f"{'PASSED' if self.passed else 'FAILED'}: forest against {self.subject} "
            f"{self.subject_version}, {self.compared}",
            f"coverage {coverage}: {self.n_covered} of {self.n_reachable} reachable nodes showed "
            f"every outcome, {self.n_unreachable} of {self.n_nodes} cannot be reached",
            f"rows: {self.n_probes} made for the nodes, {self.n_rows} given",
        ]
        if self.compared == LEAVES_AND_RAW:
            lines.append(f"leaf ids: {self.n_leaf_mismatches} differ")
        allowed = "" if self.exact else f", at most {self.allowed_difference} allowed"
        lines.append(
            f"raw scores: {self.n_raw_mismatches} rows differ, by at most {self.max_ulp} ulp of "
            f"{self.raw_dtype or 'no dtype'} ({self.max_difference:.3g}{allowed})"
        )
        lines += [f"difference: {difference}" for difference in self.differences[:3]]
        lines += [
            f"not shown: tree {tree}, node {node}: {outcomes}"
            for tree, node, outcomes in self.missed[:3]
        ]
        lines += [f"note: {sentence}" for sentence in self.exclusions]
        return "\n".join(lines)

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
        target = Path(path)
        aside = target.with_name(f".bitvec-{secrets.token_hex(8)}.tmp")
        try:
            aside.write_text(self.to_json() + "\n", encoding="utf-8")
            aside.replace(target)
        except OSError as error:
            again = type(error)(
                f"{target} must be a file that can be written, got: {error.strerror or error}."
            )
            again.errno = error.errno
            raise again from None
        finally:
            aside.unlink(missing_ok=True)
        return target


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate.

    Raises
    ------
    FileFormatError
        If the file is no certificate, is damaged, contradicts itself or has a newer format.
    OSError
        If it cannot be read.
    """
    size = Path(path).stat().st_size
    if size > MAX_BYTES:
        raise FileFormatError(
            f"{path} must be a certificate of at most {MAX_BYTES} bytes, got {size}."
        )
    try:
        record: Any = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):
        raise FileFormatError(
            f"{path} must be a certificate in JSON, got something else."
        ) from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise FileFormatError(f"{path} must be a certificate saved by bitvec, got other JSON.")
    version = record.get("version")
    if version != VERSION:
        raise FileFormatError(
            f"{path} must have format version {VERSION}, got {str(version)[:60]}: upgrade bitvec "
            "if it is newer."
        )
    certificate = Certificate(**read_fields(Certificate, record, os.fspath(path)))
    if certificate.passed is not record.get("passed"):
        raise FileFormatError(
            f"{path} must agree with itself, but `passed` contradicts its counts."
        )
    return certificate


def compare(
    forest: Forest,
    subject: Subject,
    *,
    exits: Callable[[Array], Array] | None = None,
    raw: Callable[[Array], Array] | None = None,
    X: Array | None = None,
    seed: int = 0,
    leaf_id: Array | None = None,
    allowed_difference: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Certificate:
    """Compare a forest with a subject on rows made for each node, and on X.

    Parameters
    ----------
    forest : Forest
    subject : Subject
    exits, raw : callable, optional
        What answers for the forest: rows in its dtype to exit leaves (batch, n_trees), numbered
        within each tree, and to raw scores (batch, n_outputs). The literal reference if not given.
    X : (n, n_features), optional
        Rows to compare on as well, and from which columns off a node's path are taken.
    seed : int
        Of those columns; the same seed and X make the same rows.
    leaf_id : integers, (n_leaves,), optional
        The subject's id of each leaf. By default the source's ids if the subject is the library
        that the forest was lifted from, else the leaves' numbers within their trees.
    allowed_difference : float, optional
        Of raw scores, if the subject is not exact; by default what rounding explains.
    progress : callable, optional
        Called with the fraction of nodes done.

    Raises
    ------
    InputError
        If X does not have the forest's columns, or an answer has the wrong shape.
    """
    rows, n_left_out = accepted_rows(forest, subject, X)
    tally = Tally(
        forest,
        subject,
        exits or (lambda X: reference.exit_leaf_traversal(forest, reference.columns(forest, X))),
        raw or (lambda X: _reference_raw(forest, X)),
        numbering(forest, subject, leaf_id),
    )
    probes = probe_rows(
        forest,
        seed=seed,
        base_rows=rows if len(rows) else None,
        missing=subject.accepts_missing,
        infinite=subject.accepts_infinite,
    )
    coverage = Coverage(*(np.zeros(0, kind) for kind in (bool, np.int32, np.int32)))
    for block, coverage in probes.blocks():
        tally.add(block)
        if progress is not None:
            progress(float(np.mean(coverage.seen != 0)) if forest.n_nodes else 1.0)
    n_probes = tally.n_rows
    tally.add(rows)
    if progress is not None:
        progress(1.0)
    dtype = np.dtype(tally.raw_dtype or forest.output.dtype)
    if not subject.exact and allowed_difference is None:
        allowed_difference = rounding_bound(forest, dtype)
    places = _places(forest, coverage)
    source = forest.source
    return Certificate(
        compared=RAW_ONLY if subject.leaf_ids is None else LEAVES_AND_RAW,
        subject=subject.name,
        subject_version=subject.version,
        source=None if source is None else source.library,
        source_version=None if source is None else source.version,
        exact=subject.exact,
        allowed_difference=None if subject.exact else allowed_difference,
        n_trees=forest.n_trees,
        n_nodes=forest.n_nodes,
        n_reachable=int(coverage.reachable.sum()),
        n_covered=int(coverage.is_covered.sum()),
        unreachable=tuple(map(places, np.flatnonzero(~coverage.reachable)[:LISTED])),
        missed=tuple(
            (*places(node), _names(coverage, node))
            for node in np.flatnonzero(coverage.reachable & ~coverage.is_covered)[:LISTED]
        ),
        n_probes=n_probes,
        n_rows=len(rows),
        n_rows_left_out=n_left_out,
        n_leaf_mismatches=tally.n_leaf_mismatches,
        n_raw_mismatches=tally.n_raw_mismatches,
        max_ulp=tally.max_ulp,
        max_difference=tally.max_difference,
        raw_dtype=tally.raw_dtype,
        differences=tuple(tally.examples),
        exclusions=_exclusions(forest, subject, n_left_out, allowed_difference),
        digest=forest_digest(forest),
        rows_digest=None if X is None else array_digest(np.asarray(X)),
        seed=seed,
        versions={
            "bitvec": importlib.metadata.version("bitvec"),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        platform=platform.platform(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _reference_raw(forest: Forest, X: Array) -> Array:
    if forest.kernel is not None:
        return reference.raw(forest, X)
    exits = reference.exit_leaf_traversal(forest, reference.columns(forest, X))
    return reference.accumulate(forest, X, exits)


def _places(forest: Forest, coverage: Coverage) -> Callable[[Any], tuple[int, int]]:
    tree, first = forest.bitvectors.tree_of_node, forest.bitvectors.node_ptr
    return lambda node: (int(tree[node]), int(node - first[tree[node]]))


def _names(coverage: Coverage, node: Any) -> str:
    return ", ".join(
        str(flag.name).lower().replace("_", " ") for flag in coverage.missed(int(node))
    )


def _exclusions(
    forest: Forest, subject: Subject, n_left_out: int, allowed_difference: float | None
) -> tuple[str, ...]:
    name = subject.name
    notes = {
        f"{name} accepts no missing values: rows with NaN were not compared": (
            not subject.accepts_missing
        ),
        f"{name} accepts no infinities: rows with them were not compared": (
            not subject.accepts_infinite
        ),
        f"{n_left_out} given rows were left out as {name} does not accept them": n_left_out > 0,
        f"{name} exposes no leaf ids: only raw scores were compared": subject.leaf_ids is None,
        "raw scores have no bound here, so only leaf ids decide": (
            not subject.exact and allowed_difference is None
        ),
        "the feature map cannot be inverted: coverage counts what the given rows showed": (
            forest.feature_map is not None
        ),
    }
    return tuple(note for note, holds in notes.items() if holds)
