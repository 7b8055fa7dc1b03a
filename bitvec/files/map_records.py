"""Feature maps as named arrays and a JSON record, recursively: part of a forest's record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bitvec.core.feature_maps import (
    Concatenate,
    Conv2d,
    Flatten,
    Identity,
    KeyTable,
    KeyTables,
    Layers,
    Linear,
    MaxPool2d,
    ReLU,
    StackedForest,
)
from bitvec.core.feature_maps.layers import Layer
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.files.fields import Reader, Record, Tensors, put_arrays, take_arrays

MAX_NESTING = 8
"""Deepest nesting of feature maps."""

PackForest = Callable[[Forest, str, Tensors, int], Record]
UnpackForest = Callable[[Any, str, Tensors, int], Forest]

_ARRAYS: dict[type, tuple[str, ...]] = {
    Linear: ("weight", "bias"),
    Conv2d: ("weight", "bias"),
}
_TABLE = ("column", "kind", "b", "missing_passes", "key", "value", "default")
_PAIRS: dict[type, tuple[str, ...]] = {
    Conv2d: ("stride", "padding"),
    MaxPool2d: ("kernel", "stride", "padding"),
}
_LAYERS: dict[str, type[Layer]] = {
    "linear": Linear,
    "conv2d": Conv2d,
    "max_pool2d": MaxPool2d,
    "relu": ReLU,
    "flatten": Flatten,
}
_LAYER_NAMES = {kind: name for name, kind in _LAYERS.items()}


def pack_map(
    phi: FeatureMap, prefix: str, tensors: Tensors, depth: int, pack_forest: PackForest
) -> Record:
    """Add a map's arrays to `tensors` and return its record.

    Raises
    ------
    UnsupportedModelError
        If its class is not one of `bitvec.core.feature_maps`, or maps nest more than 8 deep.
    """
    kind = type(phi)
    if kind not in _MAP_NAMES:
        raise UnsupportedModelError(
            "the feature map must be one of bitvec.core.feature_maps to be saved, got "
            f"{kind.__module__}.{kind.__qualname__}: express it as Layers, or keep it in code."
        )
    if depth > MAX_NESTING:
        raise UnsupportedModelError(f"feature maps must nest at most {MAX_NESTING} deep, got more.")
    name = _MAP_NAMES[kind]
    return {"map": name, **_MAPS[name][1](phi, prefix, tensors, depth, pack_forest)}


def unpack_map(
    record: Any, prefix: str, tensors: Tensors, depth: int, unpack_forest: UnpackForest
) -> FeatureMap:
    """Build a map again from its record and its arrays, which are taken out of `tensors`."""
    if depth > MAX_NESTING:
        raise FileFormatError(f"feature maps must nest at most {MAX_NESTING} deep, got more.")
    read = Reader(record, prefix.removesuffix("."))
    name = read.take_choice("map", tuple(_MAPS))
    phi = _MAPS[name][2](read, prefix, tensors, depth, unpack_forest)
    read.finish()
    return phi


def _pack_identity(
    phi: Identity, prefix: str, tensors: Tensors, depth: int, pack_forest: PackForest
) -> Record:
    return {"n_inputs": phi.n_inputs}


def _unpack_identity(
    read: Reader, prefix: str, tensors: Tensors, depth: int, unpack_forest: UnpackForest
) -> Identity:
    return Identity(read.take_count("n_inputs"))


def _pack_stacked(
    phi: StackedForest, prefix: str, tensors: Tensors, depth: int, pack_forest: PackForest
) -> Record:
    forest = pack_forest(phi.forest, f"{prefix}forest.", tensors, depth)
    return {"values": phi.values, "forest": forest}


def _unpack_stacked(
    read: Reader, prefix: str, tensors: Tensors, depth: int, unpack_forest: UnpackForest
) -> StackedForest:
    forest = unpack_forest(read.take("forest", dict), f"{prefix}forest.", tensors, depth)
    return StackedForest(forest, values=read.take("values", bool))


def _pack_concatenate(
    phi: Concatenate, prefix: str, tensors: Tensors, depth: int, pack_forest: PackForest
) -> Record:
    return {
        "maps": [
            pack_map(part, f"{prefix}maps.{k}.", tensors, depth + 1, pack_forest)
            for k, part in enumerate(phi.maps)
        ]
    }


def _unpack_concatenate(
    read: Reader, prefix: str, tensors: Tensors, depth: int, unpack_forest: UnpackForest
) -> Concatenate:
    return Concatenate(
        tuple(
            unpack_map(part, f"{prefix}maps.{k}.", tensors, depth + 1, unpack_forest)
            for k, part in enumerate(read.take_list("maps", dict))
        )
    )


def _pack_key_tables(
    phi: KeyTables, prefix: str, tensors: Tensors, depth: int, pack_forest: PackForest
) -> Record:
    for k, table in enumerate(phi.tables):
        put_arrays(tensors, f"{prefix}tables.{k}.", table, _TABLE)
    n_tables = len(phi.tables)
    return {"n_inputs": phi.n_inputs, "n_tables": n_tables, "multiplier": str(phi.multiplier)}


def _unpack_key_tables(
    read: Reader, prefix: str, tensors: Tensors, depth: int, unpack_forest: UnpackForest
) -> KeyTables:
    multiplier: str = read.take("multiplier", str)
    if not (multiplier.isascii() and multiplier.isdigit() and len(multiplier) <= 20):
        raise FileFormatError(f"`{read.where}.multiplier` must be decimals of a whole number.")
    tables = (
        KeyTable(**take_arrays(tensors, f"{prefix}tables.{k}.", KeyTable, _TABLE))
        for k in range(read.take_count("n_tables"))
    )
    return KeyTables(read.take_count("n_inputs"), tuple(tables), int(multiplier))


def _pack_layers(
    phi: Layers, prefix: str, tensors: Tensors, depth: int, pack_forest: PackForest
) -> Record:
    records: list[Record] = []
    for k, layer in enumerate(phi.layers):
        kind = type(layer)
        put_arrays(tensors, f"{prefix}layers.{k}.", layer, _ARRAYS.get(kind, ()))
        pairs = {name: list(getattr(layer, name)) for name in _PAIRS.get(kind, ())}
        records.append({"layer": _LAYER_NAMES[kind], **pairs})
    return {"input_shape": list(phi.input_shape), "layers": records}


def _unpack_layers(
    read: Reader, prefix: str, tensors: Tensors, depth: int, unpack_forest: UnpackForest
) -> Layers:
    layers = []
    for k, record in enumerate(read.take_list("layers", dict)):
        of_layer = Reader(record, f"{prefix}layers.{k}")
        kind = _LAYERS[of_layer.take_choice("layer", tuple(_LAYERS))]
        arguments: dict[str, Any] = {
            **take_arrays(tensors, f"{prefix}layers.{k}.", kind, _ARRAYS.get(kind, ())),
            **{name: of_layer.take_counts(name) for name in _PAIRS.get(kind, ())},
        }
        of_layer.finish()
        layers.append(kind(**arguments))
    return Layers(tuple(layers), read.take_counts("input_shape"))


_MAPS: dict[str, tuple[type, Callable[..., Record], Callable[..., FeatureMap]]] = {
    "identity": (Identity, _pack_identity, _unpack_identity),
    "stacked_forest": (StackedForest, _pack_stacked, _unpack_stacked),
    "concatenate": (Concatenate, _pack_concatenate, _unpack_concatenate),
    "key_tables": (KeyTables, _pack_key_tables, _unpack_key_tables),
    "layers": (Layers, _pack_layers, _unpack_layers),
}
_MAP_NAMES = {kind: name for name, (kind, _, _) in _MAPS.items()}
