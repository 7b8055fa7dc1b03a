"""Concrete feature maps φ: key tables, other forests' leaves, a closed list of network layers."""

from bitvec.core.feature_maps.key_tables import KeyTable, KeyTables
from bitvec.core.feature_maps.layers import Conv2d, Flatten, Linear, MaxPool2d, ReLU
from bitvec.core.feature_maps.maps import Concatenate, Identity, Layers, StackedForest

__all__ = [
    "Concatenate",
    "Conv2d",
    "Flatten",
    "Identity",
    "KeyTable",
    "KeyTables",
    "Layers",
    "Linear",
    "MaxPool2d",
    "ReLU",
    "StackedForest",
]
