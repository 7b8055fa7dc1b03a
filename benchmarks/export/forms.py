"""Our forms: a file as it would be shipped, and its twin that shows leaves and raw scores too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks.export.objects import object_bytes
from benchmarks.export.runtimes import Header, Loaded, OpenVino, Session
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError
from bitvec.runtime.export.c import to_c

ONNXRUNTIME, OPENVINO, C = "onnxruntime", "OpenVINO", "C99"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of ours in a runtime, and what asks `bitvec.export` or `to_c` for it.

    `finite` says that it takes no infinities; `raw_only` that raw scores are all that it answers;
    `slow` that of the shipped file a tenth of the rows is compared, and of its twin all.
    """

    name: str
    runtime: str
    options: dict[str, Any]
    suffix: str = ".onnx"
    finite: bool = False
    raw_only: bool = False
    slow: bool = False


TREES, TREES_3 = "tree_ensemble 5", "tree_ensemble 3"
FORMS: Final = (
    Form(TREES, ONNXRUNTIME, {"form": "tree_ensemble"}),
    Form(TREES_3, ONNXRUNTIME, {"form": "tree_ensemble", "version": 3}),
    Form(f"{TREES}, .ort", ONNXRUNTIME, {"form": "tree_ensemble"}, ".ort"),
    Form("traversal", ONNXRUNTIME, {"form": "traversal"}, slow=True),
    Form("tensor", ONNXRUNTIME, {"form": "tensor"}, slow=True),
    Form("portable", ONNXRUNTIME, {"form": "portable"}, finite=True, raw_only=True, slow=True),
    Form("traversal", OPENVINO, {"form": "traversal", "target": "openvino"}, slow=True),
    Form("tensor", OPENVINO, {"form": "tensor", "target": "openvino"}, slow=True),
    Form("tables, exact", C, {"thresholds": "exact"}),
    Form("tables, ranks", C, {"thresholds": "ranks"}),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A form's files, loaded; `exactly` says that raw scores must be the forest's bits."""

    form: Form
    shipped: Loaded
    twin: Loaded
    exactly: bool
    told: dict[str, Any]


def make(form: Form, forest: Forest, folder: Path) -> Made:
    """Write a form of a forest and load it.

    Raises
    ------
    BitvecError
        If the form cannot hold the forest.
    """
    if form.runtime == C:
        return _header(form, forest, folder)
    return _onnx(form, forest, folder)


def _onnx(form: Form, forest: Forest, folder: Path) -> Made:
    name = f"{form.name} {form.runtime}".replace(" ", "_").replace(",", "").replace(".", "")
    options = dict(form.options)
    if forest.dtype == np.float64:
        options["input_dtype"] = np.float32
    outputs = ("label", "probabilities") if forest.output.is_classifier else ("prediction",)
    if form.raw_only:
        outputs = ("raw",)
    twin = bitvec.export(forest, folder / f"{name}_twin{form.suffix}", leaves=True, **options)
    path = folder / f"{name}{form.suffix}"
    start = time.perf_counter()
    bitvec.export(forest, path, outputs=outputs, **options)
    export_seconds = time.perf_counter() - start
    load: Callable[[Path], Loaded] = OpenVino if form.runtime == OPENVINO else Session
    start = time.perf_counter()
    shipped = load(path)
    told = {
        "bytes": path.stat().st_size,
        "export_seconds": export_seconds,
        "load_seconds": time.perf_counter() - start,
        "outputs": ", ".join(outputs),
    }
    return Made(form, shipped, load(twin), _adds(twin) == "exactly", told)


def _adds(path: Path) -> str:
    """Return what a file says of its sums; one of onnxruntime's own format keeps it too."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return str(session.get_modelmeta().custom_metadata_map.get("bitvec.adds", ""))


def _header(form: Form, forest: Forest, folder: Path) -> Made:
    start = time.perf_counter()
    source = to_c(forest, **form.options)
    path = source.save(folder / f"{form.options['thresholds']}.h")
    export_seconds = time.perf_counter() - start
    classes = forest.output.classes
    start = time.perf_counter()
    loaded = Header(path, None if classes is None else classes[0])
    estimate = source.estimate
    told = {
        "bytes": estimate.constant_bytes,
        "export_seconds": export_seconds,
        "load_seconds": time.perf_counter() - start,
        "outputs": "prediction" if classes is None else "probabilities",
        "object_bytes": object_bytes(_USE.format(path=path, what=_WHAT[classes is None])),
        "bytes_per_node": estimate.bytes_per_node,
        "bytes_per_inner_node": estimate.bytes_per_inner_node,
    }
    return Made(form, loaded, loaded, True, told)


_WHAT = {True: "model_predict", False: "model_probabilities"}
_USE = """
#include "{path}"
void use(const model_input *x, model_score *out)
{{
    {what}(x, out);
}}
"""


def warm_up(folder: Path) -> None:
    """Import what exporting needs, so that no model pays for it."""
    stump = bitvec.convert(_stump())
    for form in FORMS:
        try:
            make(form, stump, folder)
        except (BitvecError, ImportError):
            continue


def _stump() -> Any:
    from sklearn.tree import DecisionTreeClassifier

    X = np.arange(6.0)[:, None]
    return DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, [0, 0, 0, 1, 1, 1])
