"""Forests and decision machines in `.safetensors` files: arrays and one JSON record, no pickle."""

from bitvec.files.store import (
    dumps,
    identical,
    load,
    load_composition,
    load_converted,
    load_machine,
    loads,
    save,
)

__all__ = [
    "dumps",
    "identical",
    "load",
    "load_composition",
    "load_converted",
    "load_machine",
    "loads",
    "save",
]
