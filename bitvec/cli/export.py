"""`bitvec export`: write a forest in another runtime's format."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.options import PATH, debug_option, json_option
from bitvec.cli.paths import open_forest, writable


@debug_option
@click.command("export", short_help="Write a forest as ONNX.")
@click.argument("path", metavar="FOREST|MODEL", type=PATH)
@click.option(
    "-o",
    "--out",
    "target",
    type=PATH,
    required=True,
    metavar="OUT",
    help="The .onnx file; replaced if it exists.",
)
@click.option(
    "--to", "format_", type=click.Choice(["onnx"]), default="onnx", help="The only format so far."
)
@click.option(
    "--form",
    type=click.Choice(["tree_ensemble", "tensor"]),
    help="tree_ensemble (ai.onnx.ml) is small and fast; tensor needs standard operators only and "
    "holds every kind of node. By default the first that holds the forest.",
)
@click.option(
    "--leaves",
    is_flag=True,
    help="Give OUT an output `leaves` too: a certificate then compares leaves, not only scores.",
)
@click.option(
    "--certify",
    "proves",
    is_flag=True,
    help="Compare OUT with the forest in onnxruntime and write OUT.certificate.json.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    path: Path,
    target: Path,
    format_: str,
    form: str | None,
    leaves: bool,
    proves: bool,
    as_json: bool,
) -> None:
    """Export a forest to ONNX. Exit status 1: exported, but its certificate failed.

    A certificate is made on one thread. On several, onnxruntime adds the trees of tree_ensemble in
    another order, so that raw scores may differ in their last places; those of tensor do not.

    \b
    Examples:
        bitvec export forest.safetensors -o forest.onnx
        bitvec export model.ubj -o model.onnx --form tensor --certify
    """
    writable(target, (".onnx",), replace=True, inputs=(path,))
    from bitvec import api
    from bitvec.cli import certificates
    from bitvec.cli.answer import print_json
    from bitvec.cli.summary import size_text

    forest = open_forest(path)
    api.export(forest, target, to=format_, form=form, leaves=leaves)  # type: ignore[arg-type]
    facts = {"file": str(target), "bytes": target.stat().st_size, "certificate": None}
    certificate = None
    if proves:
        certificate = certificates.compare(forest, target, quiet=as_json)
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
