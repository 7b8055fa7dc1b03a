"""`bitvec convert`: convert a model file into a forest file."""

from __future__ import annotations

from pathlib import Path

import click

from bitvec.cli.given_files import readable, writable
from bitvec.cli.shared_options import (
    PATH,
    as_command,
    certify_option,
    dtypes_option,
    out_option,
    values_only_option,
)
from bitvec.errors import InputError

FOREST = ".safetensors"


@as_command("convert", "Convert a model file into a forest file.")
@click.argument("model", metavar="MODEL", type=PATH)
@out_option(help="The forest file; by default MODEL's name with .safetensors, in this directory.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@dtypes_option
@certify_option(
    help="Compare the forest with MODEL first, and write it only if it passes, with its proof "
    "OUT.certificate.json."
)
@values_only_option
@click.pass_context
def command(
    ctx: click.Context,
    model: Path,
    out: Path | None,
    force: bool,
    dtypes: str | None,
    proves: bool,
    allow_values_only: bool,
    as_json: bool,
) -> None:
    """Convert a trained model into a forest file that predicts exactly as it does.

    An ensemble that combines forests behind their links, as soft voting and calibration do, becomes
    a composition of them, which info, predict, certify and serve read too.

    MODEL is recognised by its content, whatever its name is. What cannot be converted exactly is
    refused. To make such a file:

    \b
        skops.io.dump(model, "model.skops")            scikit-learn
        model.save_model("model.ubj")                  xgboost
        booster.save_model("model.txt")                LightGBM
        model.save_model("model.json", format="json")  CatBoost
        model.serialize("model.tl")                    treelite
        onnx.save(model, "model.onnx")                 ONNX
        model.save("directory")                        YDF

    \b
    Examples:
        bitvec convert model.ubj
        bitvec convert model.skops -o forest.safetensors --certify
        bitvec convert pipeline.skops --dtypes float32
    """
    readable(model, directory=True)
    from bitvec.converters.dispatch import is_forest_file

    if is_forest_file(model):
        raise InputError(
            f"{model} is a forest file already: see `bitvec info` and `bitvec export`."
        )
    target = writable(
        out or Path(f"{model.stem}{FOREST}"), (FOREST,), replace=force, inputs=(model,)
    )
    from bitvec import api, files
    from bitvec.cli import certificates
    from bitvec.cli.answer import count, print_json
    from bitvec.core.composition import Composition

    forest = api.convert(model, dtypes=dtypes)
    certificate = None
    if proves:
        certificate = certificates.compare(
            forest,
            model,
            just_converted=True,
            allow_values_only=allow_values_only,
            quiet=as_json,
        )
        if not certificate.passed:
            certificates.show(certificate, as_json=as_json)
            ctx.exit(1)
    files.save(forest, target)
    facts = {
        "file": str(target),
        "trees": forest.n_trees,
        "nodes": forest.n_nodes,
        "leaves": forest.n_leaves,
        "features": forest.n_features,
        "outputs": forest.n_outputs,
    }
    if isinstance(forest, Composition):
        facts["members"] = len(forest.members)
    if certificate is not None:
        facts["certificate"] = str(certificate.save(certificates.beside(target)))
    if as_json:
        print_json(facts)
        return
    size = f"{count(forest.n_trees, 'tree')}, {count(forest.n_nodes, 'node')}"
    if isinstance(forest, Composition):
        size = f"{forest.kind} of {count(len(forest.members), 'member')}: {size}"
    click.echo(f"{model} -> {target} ({size}, {count(forest.n_leaves, 'leaf')})")
    if certificate is not None:
        certificates.show(certificate, as_json=False)
