"""The files of onnxruntime-web that the page needs, out of an unpacked npm package."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from bitvec.errors import InputError

FOLDER = "onnxruntime"
SCRIPTS = {
    "ort.wasm.min.mjs": "ort.wasm.min.js",
    "ort-wasm-simd-threaded.mjs": "ort-wasm-simd-threaded.js",
    "ort-wasm-simd-threaded.wasm": "ort-wasm-simd-threaded.wasm",
}
"""Names in the package, and beside the page: not every server knows what an .mjs file is."""
WASM = "ort-wasm-simd-threaded.wasm"
NODE = "ort.node.min.mjs"
"""Module that runs `WASM` under node."""
LICENSE = "LICENSE"


def dist_of(package: str | os.PathLike[str], names: Iterable[str]) -> Path:
    """Return the folder `dist` of a package, or what is given if it is that folder.

    Raises
    ------
    InputError
        If a file of these names is not there.
    """
    folder = Path(package)
    dist = folder / "dist" if (folder / "dist").is_dir() else folder
    absent = [name for name in names if not (dist / name).is_file()]
    if absent:
        raise InputError(
            f"`onnxruntime_web` must be the folder of the npm package onnxruntime-web, got "
            f"{folder} without {absent[0]}: run `npm install onnxruntime-web` and pass "
            "node_modules/onnxruntime-web."
        )
    return dist


def runtime_files(package: str | os.PathLike[str]) -> dict[str, bytes]:
    """Return what goes into the folder `onnxruntime` beside the page, by name.

    Parameters
    ----------
    package : path
        The folder of the package, or its `dist`.

    Raises
    ------
    InputError
        If a file is not there.
    """
    dist = dist_of(package, SCRIPTS)
    files = {ours: (dist / theirs).read_bytes() for theirs, ours in SCRIPTS.items()}
    licenses = [place / LICENSE for place in (dist.parent, dist) if (place / LICENSE).is_file()]
    # The npm package names its licence (MIT) but does not hold the text.
    own = resources.files("bitvec.runtime.export.web") / "onnxruntime-web.LICENSE"
    files[LICENSE] = licenses[0].read_bytes() if licenses else own.read_bytes()
    return files
