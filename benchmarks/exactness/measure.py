"""Convert, certify, compare with stored outputs, write back: one row of the table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import bitvec
from benchmarks.exactness.cases import Case
from benchmarks.exactness.verdicts import VERDICTS, WRONG, sampled
from benchmarks.report import Row
from bitvec.converters.dispatch import FORMATS
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.writing import WRITERS
from bitvec.verify.certificates import Certificate
from bitvec.verify.certificates.composition_certificate import CompositionCertificate
from bitvec.verify.certificates.frame_result import DIFFER, EQUAL

WRITES = {source.name: source.writes for source in FORMATS}


def measure_model(case: Case, folder: Path) -> Row:
    """Return the row of one case; files are written to `folder`."""
    made = case.make(folder)
    row: Row
    start = time.perf_counter()
    forest = bitvec.convert(made.model)
    other = made.model if made.oracle is None else made.oracle
    if isinstance(forest, Composition):
        row = _composed(case, bitvec.certify(forest, other, made.X))
        return row | {"seconds": round(time.perf_counter() - start, 2)}
    certificate = bitvec.certify(forest, other, made.X)
    row = {
        "model": case.name,
        "format": case.format,
        "options": list(case.options),
        "rows_probed": certificate.n_probes + certificate.n_rows,
        "coverage": certificate.coverage,
        "leaves_differ": certificate.n_leaf_mismatches + certificate.n_value_mismatches,
        "labels_differ": certificate.n_label_mismatches,
        "exact": certificate.exact,
        "raw_ulp": certificate.max_ulp,
        "score_ulp": certificate.max_score_ulp,
        "score_ulp_allowed": certificate.allowed_score_ulp,
        "frames_compared": sorted(
            frame.kind for frame in certificate.frames if frame.outcome in (EQUAL, DIFFER)
        ),
        "frames_differ": sum(frame.n_mismatches for frame in certificate.frames),
        "passed": certificate.passed,
        "stored_difference": None,
        **_written_back(case, forest, made.X, folder),
        "seconds": 0.0,
    }
    if made.stored is not None:
        got, wanted = made.stored(bitvec.compile(forest))
        row["stored_difference"] = float(np.abs(got - wanted).max())
    row["seconds"] = round(time.perf_counter() - start, 2)
    return row


def _composed(case: Case, certificate: CompositionCertificate) -> Row:
    """Return the row of a composition: its members' figures and those of the combined answers."""
    members = [*_members(certificate)]
    return {
        "model": case.name,
        "format": case.format,
        "options": list(case.options),
        "rows_probed": certificate.n_rows + sum(one.n_probes + one.n_rows for one in members),
        "coverage": min(one.coverage for one in members),
        "leaves_differ": sum(one.n_leaf_mismatches + one.n_value_mismatches for one in members),
        "labels_differ": certificate.n_label_mismatches
        + sum(one.n_label_mismatches for one in members),
        "exact": all(one.exact for one in members),
        "raw_ulp": max(certificate.max_ulp, *(one.max_ulp for one in members)),
        "score_ulp": max(one.max_score_ulp for one in members),
        "score_ulp_allowed": max(one.allowed_score_ulp for one in members),
        "frames_compared": [],
        "frames_differ": 0,
        "passed": certificate.passed,
        "stored_difference": None,
        "write_back_ulp": None,
        "write_back": "no writer",
    }


def _members(certificate: CompositionCertificate) -> Iterator[Certificate]:
    for member in certificate.members:
        if isinstance(member, Certificate):
            yield member
        else:
            yield from _members(member)


def of_mutants(library: str, n: int | None) -> Row:
    """Return how many mutants of a library's small models came to each verdict, of all or of n."""
    start = time.perf_counter()
    found = sampled(library, n)
    count = Counter(verdict for _, verdict in found)
    return {
        "model": f"mutants of forests of {library}",
        "format": library,
        "mutants": len(found),
        "verdicts": {verdict: count[verdict] for verdict in VERDICTS},
        "wrong": [name for name, verdict in found if verdict == WRONG],
        "seconds": round(time.perf_counter() - start, 2),
    }


def _written_back(case: Case, forest: Forest, X: np.ndarray | pd.DataFrame, folder: Path) -> Row:
    """Write the forest in the format that it came from; its own library must answer the same."""
    target = WRITES[case.format]
    if case.format == "scikit-learn file":
        target = "sklearn"
    if target is None:
        return {"write_back_ulp": None, "write_back": "no writer"}
    path = folder / f"written{WRITERS[target].suffixes[0]}"
    try:
        bitvec.export(forest, path, to=target)
    except UnsupportedModelError as error:
        return {"write_back_ulp": None, "write_back": f"refused: {error}"}
    certificate = bitvec.certify(forest, path, X, exported=True, allow_values_only=True)
    return {
        "write_back_ulp": certificate.max_ulp,
        "write_back": "passed" if certificate.passed else "FAILED",
    }
