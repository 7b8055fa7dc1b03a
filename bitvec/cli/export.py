"""`bitvec export`: write a forest in another runtime's format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bitvec.cli.options import PATH, debug_option, json_option
from bitvec.cli.paths import open_forest, writable

if TYPE_CHECKING:
    from bitvec.formats import Target


@debug_option
@click.command("export", short_help="Write a forest as ONNX or as a model of a library.")
@click.argument("path", metavar="FOREST|MODEL", type=PATH)
@click.option(
    "-o",
    "--out",
    "target",
    type=PATH,
    required=True,
    metavar="OUT",
    help="The file, named .onnx, .ubj or .json (xgboost), .txt (LightGBM), .tl (treelite) or "
    ".skops (scikit-learn); replaced if it exists.",
)
@click.option(
    "--to",
    "format_",
    type=click.Choice(["onnx", "xgboost", "lightgbm", "treelite", "sklearn"]),
    help="By default what OUT's name says.",
)
@click.option(
    "--form",
    type=click.Choice(["tree_ensemble", "tensor"]),
    help="Of ONNX: tree_ensemble (ai.onnx.ml) is small and fast; tensor needs standard operators "
    "only and holds every kind of node. By default the first that holds the forest.",
)
@click.option(
    "--leaves",
    is_flag=True,
    help="Give an ONNX file an output `leaves` too: a certificate then compares leaves as well.",
)
@click.option(
    "--certify",
    "proves",
    is_flag=True,
    help="Compare OUT with the forest, in the runtime of OUT, and write OUT.certificate.json.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    path: Path,
    target: Path,
    format_: Target | None,
    form: str | None,
    leaves: bool,
    proves: bool,
    as_json: bool,
) -> None:
    """Export a forest. Exit status 1: exported, but its certificate failed.

    What the target cannot hold exactly is refused. An ONNX certificate is made on one thread. On
    several, onnxruntime adds the trees of tree_ensemble in another order, so that raw scores may
    differ in their last places; those of tensor do not.

    \b
    Examples:
        bitvec export forest.safetensors -o forest.onnx
        bitvec export model.ubj -o model.onnx --form tensor --certify
        bitvec export retrained.safetensors -o model.ubj --certify
    """
    from bitvec import api
    from bitvec.cli import certificates
    from bitvec.cli.answer import print_json
    from bitvec.cli.summary import size_text
    from bitvec.writing import SUFFIXES

    writable(target, SUFFIXES, replace=True, inputs=(path,))
    forest = open_forest(path)
    api.export(forest, target, to=format_, form=form, leaves=leaves)  # type: ignore[arg-type]
    facts = {"file": str(target), "bytes": target.stat().st_size, "certificate": None}
    certificate = None
    if proves:
        certificate = certificates.compare(forest, target, exported=True, quiet=as_json)
        proof = certificates.write(certificate, certificates.beside(target))
        facts |= {"certificate": str(proof), "passed": certificate.passed}
    if as_json:
        print_json(facts)
    else:
        click.echo(f"{path} -> {target} ({size_text(target.stat().st_size)})")
        if certificate is not None:
            certificates.show(certificate, as_json=False)
    if certificate is not None and not certificate.passed:
        ctx.exit(1)
