"""`bitvec report`: one page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bitvec.cli.given_files import open_forest, read_matrix, writable
from bitvec.cli.shared_options import (
    as_command,
    data_option,
    forest_argument,
    header_option,
    labels_option,
    out_option,
)


@as_command("report", "Write one page about a model.")
@forest_argument
@data_option(help="Rows to explain, and with --target to score.")
@labels_option
@header_option
@out_option(required=True, help="The .html file; replaced if it exists.")
@click.option("--certify/--no-certify", "proves", default=True, help="Prove the conversion too.")
def command(
    path: Path,
    data: Path | None,
    target: str | None,
    header: bool | None,
    out: Path,
    proves: bool,
    as_json: bool,
) -> None:
    """Write one page about a model: an HTML file that needs no network and runs no script.

    It says what the model is, whether its conversion is proved, which columns it reads and which
    matter, how fast it predicts on this machine, what it can be exported to (each is tried), and
    shows its trees. With --data it explains rows; with --target it scores them too: accuracy or
    error, calibration, and the slices that are predicted worst.

    \b
    Examples:
        bitvec report model.ubj -o report.html
        bitvec report model.ubj --data test.csv --target label -o report.html
    """
    if target is not None and data is None:
        raise click.UsageError("--target must come with --data.")
    writable(out, (".html",), replace=True, inputs=tuple(p for p in (path, data) if p is not None))
    forest = open_forest(path)
    X, y = read_matrix(data, forest, header, target)
    from bitvec.cli import certificates
    from bitvec.cli.answer import print_json
    from bitvec.cli.report_page import page
    from bitvec.cli.summary import size_text, summary
    from bitvec.converters.dispatch import is_forest_file
    from bitvec.files import atomic
    from bitvec.verify.progress_bar import progress

    certificate: Any = None
    if proves and not is_forest_file(path):
        certificate = certificates.compare(
            forest, path, just_converted=True, allow_values_only=True, quiet=as_json
        )
    facts = {"file": str(path), "file_bytes": _size(path), **summary(forest)}
    with progress("reporting", quiet=as_json) as advance:
        text = page(forest, facts, certificate=certificate, X=X, y=y, advance=advance)
    atomic.write(out, text.encode())
    size = out.stat().st_size
    if as_json:
        passed = None if certificate is None else certificate.passed
        print_json({"file": str(out), "file_bytes": size, "certified": passed})
        return
    click.echo(f"{path} -> {out} ({size_text(size)})")


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(part.stat().st_size for part in path.rglob("*") if part.is_file())
    return path.stat().st_size
