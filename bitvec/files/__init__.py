"""Forests in `.safetensors` files: arrays and one JSON record, no pickle."""

from bitvec.files.store import identical, load, save

__all__ = ["identical", "load", "save"]
