"""A forest as a model folder of NVIDIA's Triton inference server, for its backend FIL.

The folder holds `config.pbtxt` and, as version 1, a checkpoint of treelite. FIL reads rows of
float32, rounds thresholds and leaves to it and adds in it: so thresholds are moved to the float32
that routes such rows as before, and scores are within rounding (`core.to_float32`).
"""

from __future__ import annotations

from pathlib import Path

from bitvec.core.forest import Forest
from bitvec.core.to_float32 import fold_weights, narrow_scores, narrow_tests
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export import directories

MAX_BATCH = 1 << 20
"""Rows of a request, at most, as the folder says; the server's memory may hold fewer."""
CHECKPOINT = "1/checkpoint.tl"
"""Path of the model, by the name that FIL looks for."""
_KIND = "model folder"
_CONFIG = """\
backend: "fil"
max_batch_size: {max_batch}
input [ {{ name: "input__0" data_type: TYPE_FP32 dims: [ {n_features} ] }} ]
output [ {{ name: "output__0" data_type: TYPE_FP32 dims: [ {width} ] }} ]
instance_group [ {{ kind: KIND_AUTO }} ]
dynamic_batching {{}}
parameters [
{parameters}
]
"""


def save(forest: Forest, directory: Path) -> Path:
    """Write a model folder, whose name is the model's, and return its path.

    A classifier answers with probabilities: that of the second class where there are two, else one
    for each class. A regressor answers with its predictions. Rows are float32; float64 that the
    client rounds may fall on the other side of a threshold.

    Parameters
    ----------
    directory : path
        In the server's model repository. An earlier model folder is replaced, anything else
        refused.

    Raises
    ------
    UnsupportedModelError
        If FIL, or a checkpoint of treelite, cannot hold the forest without changing a route.
    InputError
        If the path is taken.
    MissingLibraryError
        If treelite is not installed.

    Notes
    -----
    Triton inference server, "FIL backend model configuration".
    """
    from bitvec.converters.treelite.write import to_treelite

    directories.require_ours(directory, _KIND)
    output = forest.output
    n_targets = output.n_outputs if output.classes is None else len(output.groups)
    if n_targets > 1:
        raise UnsupportedModelError(
            f"a model of the Triton server must have one target, got {n_targets}: train and write "
            "one for each."
        )
    narrow = narrow_scores(fold_weights(narrow_tests(forest)))
    model = bytes(to_treelite(narrow).serialize_bytes())
    return directories.write(
        directory, {"config.pbtxt": config(forest).encode(), CHECKPOINT: model}, _KIND
    )


def config(forest: Forest) -> str:
    """Return the text of `config.pbtxt`."""
    output = forest.output
    is_classifier = str(output.classes is not None).lower()
    parameters = {
        "model_type": "treelite_checkpoint",
        "is_classifier": is_classifier,
        "output_class": is_classifier,  # the same, as older servers call it
        "predict_proba": is_classifier,
    }
    lines = [
        f'  {{ key: "{key}" value: {{ string_value: "{value}" }} }}'
        for key, value in parameters.items()
    ]
    return _CONFIG.format(
        max_batch=MAX_BATCH,
        n_features=forest.n_features,
        width=output.n_outputs,
        parameters=",\n".join(lines),
    )
