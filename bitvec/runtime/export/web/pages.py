"""A forest as a page for the browser: static files, which any web server can hand out."""

from __future__ import annotations

import html
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from bitvec.core.forest import Forest, require_forest
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export import directories
from bitvec.runtime.export.web.facts import forest_facts
from bitvec.runtime.export.web.onnxruntime_web import FOLDER, WASM, runtime_files
from bitvec.runtime.export.web.tree_json import Json, size, tree_json

MOST_NUMBERS = 500_000
"""Numbers in `forest.json`, about, before trees are left out: 5 MB of text or less."""
PLACEHOLDER = "@title@"


def write(
    forest: Forest,
    onnx_model: Any,
    directory: str | os.PathLike[str],
    *,
    onnxruntime_web: str | os.PathLike[str],
    title: str | None = None,
    tree: int = 0,
) -> Path:
    """Write the page of a forest into a directory of its own, and return the directory.

    The page holds a form for one row, the path of that row through one tree, and predictions for
    files. It predicts with the ONNX model, and fetches nothing but the files beside it.

    Parameters
    ----------
    forest : Forest
        Without a feature map and a prediction kernel.
    onnx_model : bytes or onnx.ModelProto
        The same forest in any ONNX form, with the output `leaves`.
    directory : path
        Written aside and renamed; an earlier page there is replaced, anything else refused.
    onnxruntime_web : path
        An unpacked npm package onnxruntime-web, or its folder `dist`. Three of its files, about
        14 MB, are copied.
    title : str, optional
        By default the class of the model that the forest came from, or its library.
    tree : int
        The tree that the page shows first. It is drawn even if the page cannot hold all trees,
        unless it is too large by itself.

    Raises
    ------
    UnsupportedModelError
        If the page cannot show the forest.
    InputError
        If the ONNX model, the package, the directory or the tree does not fit.
    OSError
        If the directory cannot be written.
    """
    require_forest(forest)
    _require_shown(forest, tree)
    directories.require_ours(directory)
    from bitvec.runtime.export.web.models import model_bytes  # onnx is an optional library

    model = model_bytes(forest, onnx_model)
    runtime = runtime_files(onnxruntime_web)
    shown = _title(forest) if title is None else title
    facts = forest_facts(forest) | {
        "title": shown,
        "first_tree": tree,
        "trees": trees_json(forest, first=tree),
        "model_bytes": len(model),
        "wasm_bytes": len(runtime[WASM]),
    }
    files = _page_files(shown)
    files["model.onnx"] = model
    files["forest.json"] = json.dumps(facts, allow_nan=False, separators=(",", ":")).encode()
    files |= {f"{FOLDER}/{name}": content for name, content in runtime.items()}
    return directories.write(directory, files)


def trees_json(
    forest: Forest, *, first: int = 0, most_numbers: int = MOST_NUMBERS
) -> list[Json | None]:
    """Return the trees of a forest as JSON, None of each that the page cannot hold.

    Parameters
    ----------
    first : int
        The tree that is taken before all others; these follow in their order.
    most_numbers : int
        What all trees may come to; the first one that exceeds it ends the list.
    """
    found: list[Json | None] = [None] * forest.n_trees
    left = most_numbers
    for index in sorted(range(forest.n_trees), key=lambda index: index != first):
        part = forest[index]
        left -= size(part)
        if left < 0:
            break
        found[index] = tree_json(part)
    return found


def _require_shown(forest: Forest, tree: int) -> None:
    for held, what, remedy in (
        (forest.feature_map, "a feature map", "replace it with the columns that it computes"),
        (forest.kernel, "a prediction kernel", "drop it with dataclasses.replace"),
    ):
        if held is not None:
            raise UnsupportedModelError(
                f"a page needs a forest without a feature map and a prediction kernel, got {what}: "
                f"{remedy}, or predict with bitvec."
            )
    if not 0 <= tree < forest.n_trees:
        raise InputError(f"`tree` must be below {forest.n_trees}, the number of trees, got {tree}.")


def _title(forest: Forest) -> str:
    """Return the class of the model that the forest came from, or its library."""
    source = forest.source
    if source is None:
        return "Forest"
    is_class = source.model.isidentifier() and source.model[0].isupper()
    return source.model if is_class else f"Forest from {source.library}"


def _page_files(title: str) -> dict[str, bytes]:
    """Return the page itself, with its title."""
    folder = resources.files("bitvec.runtime.export.web") / "page"
    files = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}
    page = files["index.html"].decode().replace(PLACEHOLDER, html.escape(title))
    return files | {"index.html": page.encode()}
