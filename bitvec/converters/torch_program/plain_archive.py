"""Programs of torch.export admitted as data: tensors, names and a known set of operators.

`torch.export.load` runs what an archive says: it unpickles example inputs, constants and some
weights, evaluates the text of symbolic sizes and guards, looks up operators by any dotted name, and
loads compiled code. So an archive is read by the standard library first, each part of it must be of
the plain kind that `bitvec.export` writes, and torch is handed a new archive of these parts.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

from bitvec.converters.torch_program.format import FACTS
from bitvec.errors import FileFormatError, UnsupportedModelError

OPERATORS: Final = (
    "__and__ __or__ __xor__ _assert_tensor_metadata abs add amax amin arange argmax argsort "
    "bitwise_and bitwise_not bitwise_or bmm cat clamp clone contiguous copysign cumprod div "
    "eq exp expand flatten floor floor_divide gather ge gt index index_select isnan le log "
    "log1p logical_and logical_not logical_or lt masked_fill mul neg numpy_T ones permute pow "
    "reciprocal remainder repeat reshape rsub scalar_tensor searchsorted select slice sqrt "
    "squeeze stack sub sum sym_size t take to transpose trunc unbind unflatten unsqueeze view "
    "where zeros"
)
"""Names among torch.ops.aten of functions of tensors alone: they reach no file and no state."""

_MODEL: Final = "models/model.json"
_WEIGHTS: Final = "data/weights/model_weights_config.json"
_CONSTANTS: Final = "data/constants/model_constants_config.json"
_KEPT: Final = re.compile(
    r"archive_format|archive_version|byteorder|\.data/version|data/weights/weight_\d+"
)
_DROPPED: Final = re.compile(r"\.data/serialization_id|data/sample_inputs/model\.pt")
_REACHING: Final = ("as_operator", "as_custom_obj", "as_graph")
_TARGET: Final = re.compile(r"torch\.ops\.aten\.(\w+)\.\w+", re.ASCII)
_NAME: Final = re.compile(r"[\w.+-]*", re.ASCII)
_SIZE: Final = re.compile(
    r"(Symbol\('[su]\d+'(, (positive|integer|nonnegative)=True)*\)|Integer\(-?\d+\)"
    r"|Mul|Add|[(), ])+"
)
_SPEC: Final = re.compile(r'[\[\]{}:, \w"\\]*', re.ASCII)
_TYPES: Final = re.compile(r'"type": (?!null|"builtins\.(?:tuple|dict|list)")')


def plain_program(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the archive that torch may load, with no example inputs, and what `FACTS` tells.

    Raises
    ------
    UnsupportedModelError
        If it holds anything that `bitvec.export` does not write.
    FileFormatError
        If it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            names = [member.filename.partition("/")[2] for member in members]
            parts = {n: archive.read(one) for n, one in zip(names, members, strict=True)}
        facts, model, weights, constants = (
            json.loads(parts.pop(name, b"null"))
            for name in (f"extra/{FACTS}", _MODEL, _WEIGHTS, _CONSTANTS)
        )
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise FileFormatError(
            f"{path} must be a whole program that bitvec exported, got a damaged one ({error}): "
            "export it again."
        ) from None
    if not isinstance(facts, dict) or len(set(names)) < len(names):
        raise _foreign(path, f"no single part extra/{FACTS}")
    for name in parts:
        if not (_KEPT.fullmatch(name) or _DROPPED.fullmatch(name)):
            raise _foreign(path, f"the part {name[:80]!r}")
    if model.get("guards_code") or constants != {"config": {}}:
        raise _foreign(path, "guards or constants")
    for node in model["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {}
    for tree in (model, weights):
        _require_plain(path, tree)
    stream = io.BytesIO()
    kept = {name: data for name, data in parts.items() if _KEPT.fullmatch(name)}
    kept["data/sample_inputs/model.pt"] = b""
    for name, value in ((_MODEL, model), (_WEIGHTS, weights), (_CONSTANTS, constants)):
        kept[name] = json.dumps(value).encode()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in kept.items():
            archive.writestr(f"archive/{name}", data)
    return stream.getvalue(), facts


def _require_plain(path: Path, value: Any, key: str = "") -> None:
    if isinstance(value, dict):
        for name, one in value.items():
            if name in _REACHING:
                raise _foreign(path, name)
            _require_plain(path, name)
            _require_plain(path, one, name)
    elif isinstance(value, list):
        for one in value:
            _require_plain(path, one, key)
    elif key == "use_pickle" and value is not False:
        raise _foreign(path, "a pickle")
    elif isinstance(value, str) and not _is_plain(key, value):
        raise _foreign(path, f"{key or 'the name'} {value[:80]!r}")


def _is_plain(key: str, text: str) -> bool:
    if key == "target":
        match = _TARGET.fullmatch(text)
        return match is not None and match[1] in OPERATORS.split()
    if key in ("in_spec", "out_spec"):
        return _SPEC.fullmatch(text.replace(".", "")) is not None and not _TYPES.search(text)
    pattern = _SIZE if key == "expr_str" else _NAME
    return pattern.fullmatch(text) is not None


def _foreign(path: Path, what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{path} must be a program that bitvec exported, got {what}: as torch can run what a "
        "program holds, others are not loaded; export the forest anew."
    )
