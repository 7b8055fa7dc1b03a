"""Leaves of exported files on a device of float16: RKNN's simulator, with bins and with values.

    python tests/runtimes/float16.py [--python PYTHON]

The models and rows are those of `compare.py`, every fourth row. An environment with rknn-toolkit2
is made under `.versions/`, in which this script runs the files; without quantisation it computes
in float16. Prints in how many rows a leaf is wrong. Exits with 1 if one is with bins, and with 0
where the toolkit cannot be installed, as it then says.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
TOOLKIT = ("rknn-toolkit2", "setuptools<80")
DEVICE = "rk3588"


def write(folder: Path) -> list[dict[str, Any]]:
    """Write a file of bins and one of values for each model, and the leaves that are right."""
    sys.path.insert(0, str(HERE))
    import compare

    import bitvec
    from bitvec.core import reference
    from bitvec.errors import UnsupportedModelError
    from bitvec.runtime.export.binned_rows import bins_of

    jobs = []
    options: dict[str, dict[str, Any]] = {"bins": {"input": "bins"}, "values": {"finite": True}}
    for name, forest, X in compare.models():
        rows = compare.rows_of(forest, X, subnormal=True)[::4]
        for kind, asked in options.items():
            takes_missing = kind == "bins" and forest.source.library != "sklearn"
            given = rows if takes_missing else rows[~np.isnan(rows).any(axis=1)]
            path = folder / f"{name.replace(' ', '_')}_{kind}.onnx"
            try:
                bitvec.export(forest, path, target="edge", batch=1, leaves=True, **asked)
            except UnsupportedModelError as error:
                jobs.append({"model": name, "kind": kind, "refused": str(error)})
                continue
            fed = bins_of(forest).of(given) if kind == "bins" else given
            leaves = reference.exit_leaves(forest, given.astype(forest.dtype))
            np.savez(path.with_suffix(".npz"), X=fed.astype(np.float32), leaves=leaves)
            jobs.append({"model": name, "kind": kind, "file": str(path)})
    return jobs


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job with the number of its rows, and of those with a wrong leaf."""
    from rknn.api import RKNN  # type: ignore[import-not-found]

    data = np.load(Path(job["file"]).with_suffix(".npz"))
    device = RKNN(verbose=False)
    device.config(target_platform=DEVICE, optimization_level=0)
    failed = device.load_onnx(model=job["file"]) or device.build(do_quantization=False)
    if failed or device.init_runtime():
        return job | {"refused": "the toolkit does not load it"}
    wrong = 0
    for x, leaves in zip(data["X"], data["leaves"], strict=True):
        found = device.inference(inputs=[x[None]], data_format=["nchw"])
        wrong += not np.array_equal(np.asarray(found[-1]).ravel(), leaves)
    return job | {"rows": len(data["X"]), "wrong": wrong}


def main(arguments: list[str]) -> int:
    """Write the files, run them in the toolkit's environment, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="of the environment")
    parser.add_argument("--jobs", type=Path, help="what to run here, in that environment")
    options = parser.parse_args(arguments)
    if options.jobs is not None:
        jobs = json.loads(options.jobs.read_text())
        found = [job if "refused" in job else answer(job) for job in jobs]
        options.jobs.write_text(json.dumps(found))
        return 0
    sys.path.insert(0, str(HERE))
    import compare

    folder = compare.FILES / "float16"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        python = compare.run.environment(compare.run.CACHE / "rknn", TOOLKIT, options.python)
    except (RuntimeError, OSError) as error:
        print(f"RKNN: not run, for rknn-toolkit2 cannot be installed here: {error}")
        return 0
    file = folder / "jobs.json"
    file.write_text(json.dumps(write(folder)))
    compare.run.run(python, HERE / "float16.py", "--jobs", file)
    jobs = json.loads(file.read_text())
    for job in jobs:
        told = job.get("refused") or f"{job['wrong']} of {job['rows']} rows in a wrong leaf"
        print(f"{job['model']:<16}{job['kind']:<8}{told[:120]}")
    return int(any(job.get("wrong", 0) for job in jobs if job["kind"] == "bins"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
