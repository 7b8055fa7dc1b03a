"""Forests and decision machines in `.safetensors` files: arrays and one JSON record, no pickle."""

from bitvec.files.store import identical, load, load_forest, save

__all__ = ["identical", "load", "load_forest", "save"]
