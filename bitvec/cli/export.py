"""`bitvec export`: write a forest in another runtime's format."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.given_files import open_forest, writable
from bitvec.cli.shared_options import (
    PATH,
    as_command,
    certify_option,
    forest_argument,
    out_option,
    values_only_option,
)

if TYPE_CHECKING:
    from bitvec.core.forest import Forest

ONNX_FORMS = ("tree_ensemble", "traversal", "tensor", "portable")
C_FORMS = ("tables", "levels", "unrolled")
DIALECTS = ("duckdb", "sqlite", "postgres", "spark", "bigquery")
TARGETS = (
    "onnxruntime", "onnxruntime-mobile", "onnxruntime-web", "openvino", "tensorrt", "coreml",
    "nnapi", "qnn", "edge", "tract", "tvm", "opencv", "mnn", "ncnn", "litert", "iree", "onnx2torch",
)  # fmt: skip


PTE_TARGETS = ("portable", "xnnpack")
DIRECTORIES = ("web", "triton")


@as_command("export", "Write a forest as ONNX, C, SQL, a web page or a library's model.")
@forest_argument
@out_option(
    required=True,
    help="The file, named .onnx, .ort (onnxruntime's own format), .h (C), .ubj or .json (xgboost), "
    ".txt (LightGBM), .tl (treelite), .skops (scikit-learn), .pt2 (torch.export), "
    ".pte (ExecuTorch), .tflite (LiteRT) or .sql; replaced if it exists. Of --to web, and of --to "
    "triton (a model folder of Triton's inference server), a directory.",
)
@click.option(
    "--to",
    "format_",
    type=click.Choice(
        [
            "onnx",
            "c",
            "sql",
            "web",
            "xgboost",
            "lightgbm",
            "treelite",
            "sklearn",
            "torch",
            "executorch",
            "litert",
            "triton",
        ]
    ),
    help="By default what OUT's name says.",
)
@click.option(
    "--target",
    type=click.Choice([*TARGETS, *PTE_TARGETS]),
    help="The runtime of an ONNX file: it chooses form, versions and number formats, or says what "
    "the runtime cannot run. Of .pte: portable kernels, the default, or xnnpack.",
)
@click.option(
    "--form",
    type=click.Choice([*ONNX_FORMS, *C_FORMS]),
    help="Of ONNX: tree_ensemble (ai.onnx.ml) is small and fast; traversal, tensor and portable "
    "need standard operators only, portable no comparisons. Of C: tables, levels for trees "
    "of depth 8 at most, or unrolled for tiny trees. By default the first that holds the forest.",
)
@click.option(
    "--version",
    "version",
    type=click.Choice(["3", "5"]),
    help="Of the operators of tree_ensemble. 3 adds in float32: faster for forests of classes, "
    "scores within rounding.",
)
@click.option("--outputs", metavar="NAMES", help="The only outputs of ONNX or SQL: label,raw.")
@click.option(
    "--input-dtype",
    type=click.Choice(["float16", "float32", "float64"]),
    help="Of X in an ONNX file; by default the forest's. Of a C header: float32.",
)
@click.option(
    "--integer-dtype",
    type=click.Choice(["int64", "int32", "float32"]),
    help="Of leaves and labels in an ONNX file; by default int64.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of rows of an ONNX file, if fixed, and of .tflite; of .pte the most of one "
    "call.",
)
@click.option(
    "--leaves",
    is_flag=True,
    help="Give an ONNX or SQL file an output `leaves` too: a certificate then compares leaves too.",
)
@click.option(
    "--finite",
    is_flag=True,
    help="No value is ever missing: an ONNX file of the form portable then needs no second input, "
    "and traversal, tensor and a C header no test for it.",
)
@click.option(
    "--input",
    type=click.Choice(["values", "bins"]),
    help="Of ONNX and C: what rows hold. Bins are small whole numbers, exact in float16 and int8; "
    "the table that makes them is written beside OUT.",
)
@click.option(
    "--thresholds",
    type=click.Choice(["exact", "ranks"]),
    help="Of C: with ranks nodes compare small integers.",
)
@click.option(
    "--compiled",
    is_flag=True,
    help="Compile a .pt2 file for this machine's kind of processor, by AOTInductor.",
)
@click.option("--name", help="Of C and SQL: what all names begin with.")
@click.option(
    "--onnxruntime-web",
    type=PATH,
    metavar="DIR",
    help="The npm package onnxruntime-web, unpacked. --to web copies its files; --certify runs a "
    "file for --target onnxruntime-web in it, by node; by default that of node_modules.",
)
@click.option("--title", help="Of --to web: the page's title.")
@click.option(
    "--tree",
    type=click.IntRange(min=0),
    metavar="I",
    help="Of --to web: the tree that the page shows first.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help="Of SQL, which needs it.")
@click.option("--table", help="Of SQL: the table of rows; by default rows.")
@click.option("--key", metavar="NAMES", help="Of SQL: columns of the table to keep: id,day.")
@click.option(
    "--categories",
    type=click.Choice(["codes", "texts"]),
    help="Of SQL: what the table holds in columns of categories; by default codes.",
)
@certify_option(
    help="Compare OUT with the forest, and write OUT.certificate.json. SQL of sqlite and "
    "duckdb runs there, a C header is compiled and "
    "run for that, a library's model runs in its library, .pt2 in torch, .pte in ExecuTorch, "
    ".tflite in LiteRT, and ONNX in onnxruntime; for the target openvino in OpenVINO and for "
    "onnxruntime-web in its wasm, by node, where these are installed. Other targets are not run, "
    "as the certificate then says. Of --to web that is the page's model. An ONNX file whose form "
    "is not tree_ensemble shows values only "
    "without --leaves: see --allow-values-only.",
)
@values_only_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: Path,
    out: Path,
    proves: bool,
    allow_values_only: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Export a forest. Exit status 1: exported, but its certificate failed.

    What the target cannot hold exactly is refused. What was written is told: the form of an ONNX
    file, its inputs and outputs, and why an earlier form was not taken. An ONNX certificate is
    made on one thread. On several, onnxruntime adds the trees of tree_ensemble in another order, so
    that raw scores may differ in their last places; those of the other forms do not.

    \b
    Examples:
        bitvec export forest.safetensors -o forest.onnx
        bitvec export model.ubj -o model.onnx --target openvino --certify
        bitvec export model.ubj -o model.h --certify
        bitvec export model.ubj --to web -o page --onnxruntime-web node_modules/onnxruntime-web
        bitvec export model.ubj -o model.sql --dialect sqlite --key id --leaves --certify
        bitvec export retrained.safetensors -o model.ubj --certify
    """
    from bitvec.cli import certificates
    from bitvec.cli.answer import print_json
    from bitvec.cli.summary import size_text
    from bitvec.core.plain_text import plain

    kind = _kind(out, given.pop("format_"), path)
    package = given["onnxruntime_web"]
    if kind == "onnx" and given["target"] == "onnxruntime-web" and proves:
        given["onnxruntime_web"] = None  # it runs the file, and is no part of it
    options = _options(kind, given)
    if proves:
        if kind == "triton":
            raise click.UsageError(
                "--certify must be left out where triton is written, since no server is run here."
            )
        _require_comparable(options)
    forest = open_forest(path)
    facts = _written(forest, out, kind, options)
    lines = facts.pop("lines")
    certificate = None
    if proves:
        other = _oracle(forest, out, kind, options.get("target"), package)
        if options.get("input") == "bins":
            other = _through_bins(out, other)
        certificate = certificates.compare(
            forest, other, exported=True, allow_values_only=allow_values_only, quiet=as_json
        )
        proof = certificate.save(certificates.beside(out))
        facts |= {
            "certificate": str(proof),
            "passed": certificate.passed,
            "grade": certificate.grade,
        }
    if as_json:
        print_json({"certificate": None, **facts})
    else:
        if kind not in DIRECTORIES:
            click.echo(f"{path} -> {out} ({size_text(facts['bytes'])})")
        for line in lines:
            click.echo(plain(line) if kind in DIRECTORIES else f"  {plain(line)}")
        if certificate is not None:
            certificates.show(certificate, as_json=False)
    if certificate is not None and not certificate.passed:
        ctx.exit(1)


def _kind(out: Path, to: str | None, path: Path) -> str:
    """Return what is to be written, after a look at where."""
    from bitvec.runtime.export.writing import SUFFIXES, target_of

    if to in DIRECTORIES:
        return to
    kind = None if to is None else target_of(out, to)  # type: ignore[arg-type]
    writable(out, SUFFIXES, replace=True, inputs=(path,))
    return kind or target_of(out, None)


def _options(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, of which each must be one of this kind of file."""
    from bitvec.runtime.export.exports import OPTIONS

    options = {n: value for n, value in given.items() if value is not None and value is not False}
    for name in options:
        if name not in OPTIONS.get(kind, ()):
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} must be left out where {kind} is written.")
    forms = {"onnx": ONNX_FORMS, "c": C_FORMS}.get(kind, ())
    if "form" in options and options["form"] not in forms:
        raise click.UsageError(f"--form must be one of {', '.join(forms)} where {kind} is written.")
    if kind == "sql" and "dialect" not in options:
        raise click.UsageError(f"SQL must come with --dialect, one of {', '.join(DIALECTS)}.")
    if kind == "web" and "onnxruntime_web" not in options:
        raise click.UsageError(
            "--to web must come with --onnxruntime-web: run `npm install onnxruntime-web`, and "
            "name node_modules/onnxruntime-web."
        )
    return options


def _require_comparable(options: dict[str, Any]) -> None:
    """Refuse what no certificate can be made of, before anything is written."""
    if options.get("dialect", "sqlite") not in ("sqlite", "duckdb"):
        raise click.UsageError(
            f"--certify must come with --dialect sqlite or duckdb, got {options['dialect']}: "
            "others need a server."
        )
    if options.get("categories") == "texts":
        raise click.UsageError(
            "--certify must come with --categories codes, got texts: certify the same export with "
            "codes."
        )
    if options.get("input_dtype") == "float16":
        raise click.UsageError(
            "--certify must come with rows of float32 or float64, got --input-dtype float16: "
            "certify the same export without --input-dtype."
        )
    if "compiled" in options:
        raise click.UsageError(
            "--certify must come without --compiled, which writes code that no certificate runs: "
            "certify the same export without it."
        )
    if "outputs" in options and "raw" not in _names(options["outputs"]):
        raise click.UsageError(
            f"--certify must come with the output raw, got --outputs {options['outputs']}: add raw."
        )


def _names(outputs: str) -> list[str]:
    return [name.strip() for name in outputs.split(",")]


def _written(forest: Forest, out: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Write the file, and return what is to be told of it."""
    from bitvec.runtime.export import exports

    if kind == "web":
        exports.export(forest, out, to="web", **options)
        serve = f"{out}: serve it with `python -m http.server -d {out}`"
        return {**_page_facts(out), "lines": [serve]}
    if kind == "triton":
        exports.export(forest, out, to="triton")
        return {**_directory(out), "lines": [f"{out}: put it into the server's model repository"]}
    if kind == "c":
        from bitvec.runtime.export.c import to_c

        exports.export(forest, out, to="c", **options)
        estimate = str(to_c(forest, **options).estimate)
        return {**_file(out), "estimate": estimate, "lines": [f"estimate: {estimate}"]}
    if kind == "sql":
        for names in {"outputs", "key"} & set(options):
            options[names] = _names(options[names])
        exports.export(forest, out, to="sql", **options)
        return {**_file(out), "lines": []}
    if kind != "onnx":
        exports.export(forest, out, to=kind, **options)  # type: ignore[arg-type]
        return {**_file(out), "lines": []}
    if "outputs" in options:
        options["outputs"] = _names(options["outputs"])
    if "version" in options:
        options["version"] = int(options["version"])
    exports.export(forest, out, to="onnx", **options)
    from bitvec.runtime.export.onnx.description import describe, line

    facts = describe(out)
    assert facts is not None
    told = facts.pop("metadata")
    facts |= {name: told.get(name, "") for name in ("instead_of", "settings")}
    lines = [line(facts)]
    lines += [f"not {facts['instead_of']}"] if facts["instead_of"] else []
    lines += [f"settings: {facts['settings']}"] if facts["settings"] else []
    return {**_file(out), **facts, "lines": lines}


def _file(out: Path) -> dict[str, Any]:
    return {"file": str(out), "bytes": out.stat().st_size}


def _oracle(forest: Forest, out: Path, kind: str, target: str | None, package: Path | None) -> Any:
    """Return what was written as the other side of a certificate, in its own runtime if it can."""
    if kind == "c":
        from bitvec.runtime.export.c.compiled import oracle_of

        return oracle_of(out, classes=forest.output.classes)
    if kind == "web" or target == "onnxruntime-web":
        from bitvec.runtime.export.web import wasm

        model = out / "model.onnx" if kind == "web" else out
        return wasm.certified(model, package) or model
    if target == "openvino" and find_spec("openvino") is not None:
        from bitvec.runtime.export.onnx import openvino

        return openvino.certified(out)
    return out


def _through_bins(out: Path, other: Any) -> Any:
    """Return what was written as an oracle that makes bins of rows itself."""
    from bitvec.certification import oracle_of
    from bitvec.runtime.export.binned_rows import Bins, through
    from bitvec.runtime.export.exports import bins_beside

    return through(Bins.load(bins_beside(out)), oracle_of(other))


def _page_facts(directory: Path) -> dict[str, Any]:
    import json

    shown = json.loads((directory / "forest.json").read_bytes())
    return {
        **_directory(directory),
        "title": shown["title"],
        "trees": len(shown["trees"]),
        "trees_shown": sum(tree is not None for tree in shown["trees"]),
    }


def _directory(path: Path) -> dict[str, Any]:
    sizes = [one.stat().st_size for one in path.rglob("*") if one.is_file()]
    return {"directory": str(path), "files": len(sizes), "bytes": sum(sizes)}
