"""Certificates in commands: made, written and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bitvec import api
from bitvec.certification import oracle_of
from bitvec.cli.answer import print_json
from bitvec.core.composition import Converted
from bitvec.core.forest import Forest
from bitvec.core.plain_text import plain
from bitvec.verify.certificates import Certificate
from bitvec.verify.certificates.composition_certificate import CompositionCertificate
from bitvec.verify.progress_bar import progress


def compare(
    forest: Converted,
    other: Any,
    rows: Any = None,
    *,
    exported: bool | None = False,
    just_converted: bool = False,
    seed: int = 0,
    allow_values_only: bool = False,
    quiet: bool = False,
) -> Certificate | CompositionCertificate:
    """Compare a forest with a model file or an exported one, with a progress bar.

    A forest that was `just_converted` from the file shows its columns: it is not converted again.
    """
    if just_converted and isinstance(forest, Forest):
        other = replace(oracle_of(other), inputs=forest.inputs)
    with progress("comparing", quiet=quiet) as advance:
        return api.certify(
            forest,
            other,
            rows,
            exported=exported,
            seed=seed,
            allow_values_only=allow_values_only,
            progress=advance or False,
        )


def beside(path: Path) -> Path:
    """Return where the certificate of a file is kept."""
    return path.with_name(f"{path.name}.certificate.json")


def show(certificate: Certificate | CompositionCertificate, *, as_json: bool) -> None:
    """Print a certificate, for a script or for a person."""
    if as_json:
        print_json(json.loads(certificate.to_json()))
        return
    first, *others = map(plain, certificate.summary().splitlines())
    click.secho(first, fg="green" if certificate.passed else "red", bold=True)
    for line in others:
        click.echo(f"  {line}")
