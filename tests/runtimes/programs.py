"""Run exported programs in the runtimes of phones and small devices, and certify them there.

    python tests/runtimes/programs.py [--only RUNTIME]

For each runtime an environment is made under `.versions/`, which sees the packages of this one, so
that torch is not installed anew. In it the models of `compare.py` are exported, and certified: raw
scores and leaves, on rows for every node. For Core ML, which runs on macOS only, the models are
converted and the specification is checked. A runtime that cannot be installed here is skipped by
name. Exits with 1 if a certificate fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RUNTIMES: dict[str, tuple[str, ...]] = {
    "executorch": ("executorch>=1.5",),
    "litert": ("litert-torch>=0.10", "ai-edge-litert>=2.3"),
    "coreml": ("coremltools>=9.0",),
}
"""By runtime, what is installed for it."""
FILES: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "executorch": (
        ("one row.pte", {}),
        ("64 rows.pte", {"batch": 64}),
        ("xnnpack.pte", {"target": "xnnpack"}),
    ),
    "litert": (("one row.tflite", {}), ("64 rows.tflite", {"batch": 64})),
}
"""By runtime, names of files and the options of `bitvec.export`."""


def converted() -> int:
    """Convert exported programs for Core ML, and check their inputs, outputs and constants."""
    import coremltools
    import torch

    import bitvec

    sys.path.insert(0, str(HERE))
    compare = import_module("compare")
    warnings.simplefilter("ignore")
    failed = 0
    for model, forest, _ in compare.models():
        if forest.dtype != "float32":
            print(f"  {model}: not converted, as it compares in {forest.dtype}")
            continue
        leaves = bitvec.to_torch(forest, output="leaves", form="perfect")
        x = torch.zeros((1, forest.n_features))
        program = torch.export.export(leaves, (x,)).run_decompositions({})
        made = coremltools.convert(
            program,
            minimum_deployment_target=coremltools.target.iOS17,
            compute_precision=coremltools.precision.FLOAT32,
        )
        spec = made.get_spec()
        (given,), (found,) = spec.description.input, spec.description.output
        shapes = [list(one.type.multiArrayType.shape) for one in (given, found)]
        blocks = [
            block
            for function in spec.mlProgram.functions.values()
            for block in function.block_specializations.values()
        ]
        kinds = {operation.type for block in blocks for operation in block.operations}
        fits = shapes == [[1, forest.n_features], [1, forest.n_trees]]
        fits &= "while_loop" not in kinds and "cond" not in kinds
        failed |= not fits
        said = "as it must be" if fits else "WRONG"
        print(f"  {model}: {said}, {shapes}, {len(kinds)} kinds of operations, not run", flush=True)
    return int(failed)


def certified(runtime: str) -> int:
    """Export and certify in this environment, and print a line for each file."""
    import bitvec

    sys.path.insert(0, str(HERE))
    compare = import_module("compare")
    warnings.simplefilter("ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (model, forest, X) in enumerate(compare.models()):
            # Each file takes a while to convert: options are tried on the first model only.
            for name, options in FILES[runtime][: None if number == 0 else 1]:
                path = bitvec.export(forest, Path(folder, name), **options)
                rows = compare.rows_of(forest, X, subnormal=True)
                if forest.source is not None and forest.source.library == "sklearn":
                    rows = rows[:80]
                proof = bitvec.certify(forest, path, rows.astype(forest.dtype), progress=False)
                failed |= not proof.passed
                said = proof.summary().splitlines()[0]
                print(f"  {model}, {name}, {path.stat().st_size:,} bytes: {said}", flush=True)
    return int(failed)


def environment(runtime: str) -> Path:
    """Return the interpreter of an environment that has a runtime and all that this one has."""
    sys.path.insert(0, str(HERE.parent / "versions"))
    run = import_module("run")
    place = run.CACHE / f"program-{runtime}"
    interpreter = place / "bin" / "python"
    if not (place / "finished").is_file():
        run.run(sys.executable, "-m", "venv", "--clear", place)
        (site,) = place.glob("lib/python*/site-packages")
        (site / "outer.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p))
        run.run(interpreter, "-m", "pip", "install", "--quiet", *RUNTIMES[runtime])
        (place / "finished").touch()
    return interpreter


def main(arguments: list[str]) -> int:
    """Certify what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=RUNTIMES, action="append", help="this runtime")
    parser.add_argument("--here", action="store_true", help="in this environment, made by hand")
    options = parser.parse_args(arguments)
    failed = 0
    for runtime in options.only or RUNTIMES:
        if options.here:
            failed |= converted() if runtime == "coreml" else certified(runtime)
            continue
        try:
            python = environment(runtime)
        except (RuntimeError, OSError) as error:
            print(f"{runtime}: skipped, for it cannot be installed or started here: {error}")
            continue
        print(runtime, flush=True)
        asked = [python, Path(__file__), "--here", "--only", runtime]
        # A checkout that is installed in place is found by a hook that only its own Python has.
        found = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
        failed |= subprocess.run(asked, env=found, check=False).returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
