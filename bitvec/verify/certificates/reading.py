"""Certificates from files: nothing is loaded that contradicts itself."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from bitvec.errors import FileFormatError
from bitvec.files import atomic
from bitvec.files.sound import sound
from bitvec.verify.certificates import certificate as names
from bitvec.verify.certificates.certificate import (
    FORMAT,
    LISTED,
    PARTS,
    VERSION,
    Certificate,
    listing,
)
from bitvec.verify.certificates.comparison import EXAMPLES, MOST_SCORE_ULPS
from bitvec.verify.certificates.difference import KINDS
from bitvec.verify.certificates.frame_result import DIFFER
from bitvec.verify.certificates.json_fields import read_fields

MAX_BYTES = 1 << 28
"""Largest file that is read as a certificate."""


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate.

    A certificate is a record, not a seal: who can write the file can write another that agrees with
    itself. `certify` makes it anew, and `Certificate.matches` ties it to a forest.

    Raises
    ------
    FileFormatError
        If the file is no certificate, is damaged, contradicts itself or has a newer format.
    OSError
        If it cannot be read.
    """
    with atomic.one_sentence(path, "read"):
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise FileFormatError(
                f"{path} must be a certificate of at most {MAX_BYTES} bytes, got {size}."
            )
        data = Path(path).read_bytes()
    with sound(path, "be a certificate saved by bitvec"):
        return _checked(path, data)


def _checked(path: str | os.PathLike[str], data: bytes) -> Certificate:
    try:
        record: Any = json.loads(data)
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
            "if it is newer, certify anew if it is older."
        )
    certificate = Certificate(**read_fields(Certificate, record, os.fspath(path)))
    stated = {name: record.get(name) for name in ("passed", "coverage")}
    derived = {"passed": certificate.passed, "coverage": certificate.coverage}
    wrong = [name for name in stated if stated[name] != derived[name]] or contradictions(
        certificate
    )
    if wrong:
        raise FileFormatError(
            f"{path} must agree with itself, but `{wrong[0]}` contradicts the rest of it."
        )
    return certificate


def contradictions(c: Certificate) -> list[str]:
    """Return the fields of a certificate that its other fields rule out."""
    n_rows = c.n_probes + c.n_rows
    shown = dict.fromkeys(KINDS, 0)
    for difference in c.differences:
        shown[difference.kind] += 1
    absent = {part: part not in c.parts for part in PARTS}
    unreachable, missed = set(c.unreachable), {(tree, node) for tree, node, _ in c.missed}
    answers = {names.SCORES, names.LABELS, names.PREDICTIONS} & set(c.parts)
    compares_scores = not absent[names.SCORES] or not absent[names.PREDICTIONS]
    rules = {
        "grade": c.grade in names.GRADES
        and (c.grade != names.PROVED or not c.n_structure_mismatches)
        and (c.grade != names.TWO_SIDED or not absent[names.LEAF_IDS]),
        "n_structure_mismatches": shown["structure"] == c.n_structure_mismatches <= EXAMPLES,
        "n_unseen_leaves": c.n_unseen_leaves <= c.n_nodes + c.n_trees,
        "compared": c.compared == listing(tuple(part for part in PARTS if part in c.parts))
        and not absent[names.RAW],
        "n_reachable": c.n_covered <= c.n_reachable <= c.n_nodes,
        "n_trees": c.n_trees > 0 or c.n_nodes == 0,
        "unreachable": len(unreachable) == len(c.unreachable) == min(c.n_unreachable, LISTED)
        and all(tree < c.n_trees and node < c.n_nodes for tree, node in unreachable),
        "missed": len(missed) == len(c.missed) == min(c.n_reachable - c.n_covered, LISTED)
        and all(tree < c.n_trees and node < c.n_nodes for tree, node in missed)
        and not missed & unreachable
        and all(outcomes for _, _, outcomes in c.missed),
        "allowed_difference": not c.exact or c.allowed_difference is None,
        "allowed_score_ulp": 0 <= c.allowed_score_ulp <= MOST_SCORE_ULPS,
        "n_leaf_mismatches": c.n_leaf_mismatches <= n_rows * c.n_trees
        and (not absent[names.LEAF_IDS] or not c.n_leaf_mismatches)
        and shown["leaf"] == min(c.n_leaf_mismatches, EXAMPLES),
        "n_value_mismatches": (not absent[names.LEAF_VALUES] or not c.n_value_mismatches)
        and shown["value"] == min(c.n_value_mismatches, EXAMPLES),
        "n_raw_mismatches": c.n_raw_mismatches <= n_rows
        and min(c.n_raw_mismatches, EXAMPLES) <= shown["raw"] <= EXAMPLES
        and (c.n_raw_mismatches > 0 or not shown["raw"]),
        "max_ulp": (c.max_ulp > 0) is (c.n_raw_mismatches > 0),
        "max_difference": (c.max_difference == 0) is (c.n_raw_mismatches == 0),
        "n_answered": c.n_answered == n_rows - (0 if c.exact else c.n_raw_mismatches)
        and (c.n_answered > 0 or not answers),
        "n_label_mismatches": c.n_label_mismatches <= c.n_answered
        and (not absent[names.LABELS] or not c.n_label_mismatches)
        and min(c.n_label_mismatches, EXAMPLES) <= shown["label"] <= EXAMPLES
        and (c.n_label_mismatches > 0 or not shown["label"]),
        "max_score_ulp": (compares_scores or not c.max_score_ulp)
        and (shown["score"] > 0) is (c.max_score_ulp > c.allowed_score_ulp),
        "raw_dtype": c.raw_dtype in (("float32", "float64") if n_rows else ("",)),
        "frames": all(
            (one.n_mismatches > 0) is (one.outcome == DIFFER) and one.n_mismatches <= one.n_rows
            for one in c.frames
        ),
        "digest": _is_digest(c.digest),
        "rows_digest": _is_digest(c.rows_digest)
        if c.rows_digest is not None
        else not c.n_rows + c.n_rows_left_out,
    }
    return [name for name, holds in rules.items() if not holds]


def _is_digest(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None
