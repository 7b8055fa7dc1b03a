"""`bitvec certify`: prove that a forest equals what it came from, or what it was exported to."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.given_files import open_model, read_rows, readable, writable
from bitvec.cli.shared_options import (
    PATH,
    as_command,
    data_option,
    dtypes_option,
    forest_argument,
    header_option,
    out_option,
    seed_option,
    values_only_option,
)
from bitvec.errors import InputError


@as_command("certify", "Prove that a forest equals its source.")
@forest_argument
@click.option(
    "--model",
    type=PATH,
    metavar="MODEL",
    help="The model file that FOREST was converted from, or a file that it was exported to: .onnx "
    "or .ort runs in onnxruntime, whatever its target is, as the certificate then says; .pt2 in "
    "torch; of a C header use `bitvec export --certify`.",
)
@click.option(
    "--exported/--no-exported",
    default=None,
    help="Whether MODEL is what FOREST was exported to, which may number leaves anew; by default "
    "where it comes from another library than FOREST.",
)
@dtypes_option
@data_option(help="Rows to compare on as well.")
@header_option
@out_option(
    metavar="CERT", help="Write the certificate to CERT, a .json file; replaced if it exists."
)
@click.option(
    "--again",
    type=PATH,
    metavar="CERT",
    help="Make the comparison of this certificate again, and fail if it finds something else.",
)
@seed_option(help="Of the built rows.")
@values_only_option
@click.pass_context
def command(
    ctx: click.Context,
    path: Path,
    model: Path | None,
    exported: bool | None,
    dtypes: str | None,
    data: Path | None,
    header: bool | None,
    out: Path | None,
    again: Path | None,
    seed: int,
    allow_values_only: bool,
    as_json: bool,
) -> None:
    """Compare a forest with its source node by node and on built rows, and certify the result.

    The certificate's first line holds its grade. proved: the source's own trees are the same
    function. two-sided: rows for each node, around all thresholds, and the source's leaf ids one to
    one with the forest's leaves. values only: the source shows neither; this fails unless
    --allow-values-only is given.

    For each node there are rows that really reach it with a value on its threshold, one ulp to
    each side, missing, infinite, and of each category. A MODEL file alone is converted and compared
    with itself. Exit status 0: passed; 1: failed; 2: wrong input.

    \b
    Examples:
        bitvec certify model.ubj
        bitvec certify forest.safetensors --model model.skops --data rows.csv -o proof.json
        bitvec certify forest.safetensors --model forest.onnx --allow-values-only
        bitvec certify forest.safetensors --model model.skops --again proof.json
    """
    other = model
    if other is None:
        from bitvec.converters.dispatch import is_forest_file

        if is_forest_file(readable(path, directory=True)):
            raise InputError(
                f"{path} does not hold the model that it was converted from: "
                "name it with --model, or a file that it was exported to."
            )
        other, exported = path, False
    readable(other, directory=True)
    if other.suffix.lower() == ".h":
        raise InputError(
            f"{other} must be a model, .onnx or .pt2 file to be certified here, got a C header: "
            f"run `bitvec export {path} -o {other} --certify`, which writes it anew, compiles "
            "and runs it."
        )
    if out is not None:
        inputs = tuple(p for p in (path, other, data) if p is not None)
        writable(out, (".json",), replace=True, inputs=inputs)
    from bitvec.cli import certificates
    from bitvec.core.forest import Forest
    from bitvec.verify.certificates import Certificate, load

    forest = open_model(path, dtypes)
    if again is not None and not isinstance(forest, Forest):
        raise InputError(
            f"--again must be left out of a composition, got {again}: certify it anew, with -o."
        )
    before = None if again is None else load(readable(again))
    seed = seed if before is None else before.seed
    rows = read_rows(data, forest, header)
    certificate = certificates.compare(
        forest,
        other,
        rows,
        exported=exported,
        just_converted=other is path,
        seed=seed,
        allow_values_only=allow_values_only,
        quiet=as_json,
    )
    if out is not None:
        certificate.save(out)
    certificates.show(certificate, as_json=as_json)
    changes: tuple[str, ...] = ()
    if before is not None and isinstance(certificate, Certificate):
        changes = before.changes(certificate)
    if "rows_digest" in changes:
        click.echo(f"{again} was made with other rows: give them with --data", err=True)
    if changes:
        click.echo(f"differs from {again} in {', '.join(changes)}", err=True)
    elif before is not None and not as_json:
        click.echo(f"  the same as {again}, made {before.created} with {before.oracle_version}")
    ctx.exit(1 if changes or not certificate.passed else 0)
