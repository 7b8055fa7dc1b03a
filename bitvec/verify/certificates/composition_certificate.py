"""Certificates of compositions: one of each member, and the comparison of the combined answers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from bitvec.files import atomic
from bitvec.verify.certificates.certificate import GRADES, Certificate


@dataclass(frozen=True, slots=True)
class CompositionCertificate:
    """Result of a comparison of a composition with its source.

    Parameters
    ----------
    members : tuple of Certificate
        Of each member against its own model; of a member that is a composition, its certificate.
    n_rows : int
        Rows whose combined answers were compared: those that were given, and rows that were made
        for the nodes of the members.
    n_mismatches, n_label_mismatches : int
        Rows on which an answer differs by a bit, or a label.
    max_ulp : int
        The largest difference of an answer.
    oracle : str
        What answered.
    notes : tuple of str
    """

    members: tuple[Certificate | CompositionCertificate, ...]
    n_rows: int
    n_mismatches: int
    n_label_mismatches: int
    max_ulp: int
    oracle: str
    notes: tuple[str, ...] = ()

    @property
    def grade(self) -> str:
        """Weakest grade of the members; see `Certificate.grade`."""
        return max((member.grade for member in self.members), key=GRADES.index)

    @property
    def passed(self) -> bool:
        """Return whether all members passed and no combined answer differs."""
        differ = self.n_mismatches or self.n_label_mismatches or not self.n_rows
        return not differ and all(member.passed for member in self.members)

    def summary(self) -> str:
        """Return the result in lines for people."""
        verdict = "PASSED" if self.passed else "FAILED"
        lines = [
            f"{verdict}, {self.grade}: composition against {self.oracle}",
            f"  combined answers: {self.n_mismatches} of {self.n_rows} rows differ, by at most "
            f"{self.max_ulp} ulp; labels: {self.n_label_mismatches} differ",
            *(f"  note: {note}" for note in self.notes),
        ]
        for number, member in enumerate(self.members):
            lines.append(f"  member {number}: {member.summary()}".replace("\n", "\n  "))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json.dumps(
            {
                "format": "bitvec.composition_certificate",
                "passed": self.passed,
                "grade": self.grade,
                "oracle": self.oracle,
                "n_rows": self.n_rows,
                "n_mismatches": self.n_mismatches,
                "n_label_mismatches": self.n_label_mismatches,
                "max_ulp": self.max_ulp,
                "notes": list(self.notes),
                "members": [json.loads(member.to_json()) for member in self.members],
            },
            indent=1,
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the certificate as JSON.

        Raises
        ------
        OSError
            If the path cannot be written.
        """
        text = self.to_json().encode()
        atomic.write(path, lambda stream: stream.write(text))
        return Path(path)
