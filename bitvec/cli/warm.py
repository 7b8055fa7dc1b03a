"""`bitvec warm`: compile what predictions need ahead of the first one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from bitvec.cli.given_files import open_forest, readable
from bitvec.cli.shared_options import PATH, as_command


@as_command("warm", "Compile a model's kernels ahead.")
@click.argument("paths", metavar="FOREST|MODEL...", nargs=-1, required=True, type=PATH)
@click.option(
    "--to",
    "folder",
    type=PATH,
    metavar="FOLDER",
    help="Keep the kernels in FOLDER, made if it is not there, instead of numba's cache.",
)
def command(paths: tuple[Path, ...], folder: Path | None, as_json: bool) -> None:
    """Compile the kernels that predictions of models need, or load them from the cache.

    With --to they go to a folder that can be copied to other machines with the same processor,
    Python, numba and bitvec, as into an image of a container: where BITVEC_KERNELS names it,
    processes load them from there and compile nothing. The folder is read by unpickling: name only
    one that nobody else can write.

    \b
    Examples:
        bitvec warm model.ubj
        bitvec warm model.ubj other.txt --to kernels
        BITVEC_KERNELS=kernels bitvec predict model.ubj rows.csv
    """
    for path in paths:
        readable(path, directory=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["BITVEC_KERNELS"] = str(folder)  # read where the first kernel is declared
    from bitvec import api
    from bitvec.cli.answer import print_json
    from bitvec.cli.summary import size_text

    models = []
    for path in paths:
        start = time.perf_counter()
        predictor = api.compile(open_forest(path), warm=True)
        seconds = time.perf_counter() - start
        models.append({"file": str(path), "engine": predictor.engine.name, "seconds": seconds})
        if not as_json:
            click.echo(f"{path}: ready after {seconds:.1f} s, engine {predictor.engine.name}")
    if folder is None:
        if as_json:
            print_json({"models": models})
        return
    sizes = [kept.stat().st_size for kept in folder.glob("*.nb[ic]")]
    if as_json:
        print_json({"models": models, "folder": str(folder), "bytes": sum(sizes)})
        return
    click.echo(f"{folder}: {size_text(sum(sizes))} of kernels; name it in BITVEC_KERNELS")
