"""Key tables as tensors: the columns of φ(x) that a hard forest compares, looked up by int64 keys.

key = 0;  for each part: key = m · (key + m · part(x))     (int64, which wraps as uint64 does)
at = place of key among the sorted keys
out = values there, or the default where the key is another, or x holds no whole number
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST, Part
from bitvec.core.features import FeatureMap

_SIGN = np.uint64(1 << 63)


def is_looked_up(feature_map: FeatureMap) -> bool:
    """Return whether a feature map is made of key tables and columns of X alone."""
    if isinstance(feature_map, Concatenate):
        return all(map(is_looked_up, feature_map.maps))
    return isinstance(feature_map, Identity | KeyTables)


class HardLookup(nn.Module):
    """φ(x), float64 (batch, n_columns), of key tables and columns of X."""

    def __init__(self, feature_map: FeatureMap) -> None:
        super().__init__()
        maps = feature_map.maps if isinstance(feature_map, Concatenate) else (feature_map,)
        self.parts = nn.ModuleList(_part(part) for part in maps)

    def forward(self, x: Tensor) -> Tensor:
        """Return the columns that the forest compares."""
        return torch.cat([part(x) for part in self.parts], dim=1)


def _part(feature_map: FeatureMap) -> nn.Module:
    if isinstance(feature_map, Concatenate):
        return HardLookup(feature_map)
    if isinstance(feature_map, KeyTables):
        tables = (_Table(table, feature_map.multiplier) for table in feature_map.tables)
        return _Tables(nn.ModuleList(tables))
    return nn.Identity()


class _Tables(nn.Module):
    """All tables of a map, one beside the other."""

    def __init__(self, tables: nn.ModuleList) -> None:
        super().__init__()
        self.tables = tables

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([table(x) for table in self.tables], dim=1)


class _Table(nn.Module):
    """One table: the values of each row's key."""

    keys: Tensor
    values: Tensor
    default: Tensor

    def __init__(self, table: KeyTable, multiplier: int) -> None:
        super().__init__()
        self.parts = [
            (int(column), int(kind), float(b), bool(passes))
            for column, kind, b, passes in zip(
                table.column, table.kind, table.b, table.missing_passes, strict=True
            )
        ]
        self.multiplier = int(_signed(np.array([multiplier], np.uint64))[0])
        # Unsigned keys rise; with the other sign bit, signed ones do.
        self.register_buffer("keys", torch.tensor(_signed(table.key ^ _SIGN)))
        self.register_buffer("values", torch.tensor(table.value.astype(np.float64)))
        self.register_buffer("default", torch.tensor(table.default.astype(np.float64)))

    def forward(self, x: Tensor) -> Tensor:
        key = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
        held = torch.ones(x.shape[0], dtype=torch.bool, device=x.device)
        for column, kind, b, passes in self.parts:
            own = x[:, column]
            if kind == Part.WHOLE:
                is_whole = (own >= LOWEST) & (own <= HIGHEST) & (own == torch.floor(own))
                held = held & is_whole
                part = torch.where(is_whole, own, 0.0).to(torch.int64)
            elif kind == Part.GREATER:
                above = own > b
                part = (above | torch.isnan(own) if passes else above).to(torch.int64)
            else:
                part = (own == b).to(torch.int64)
            key = self.multiplier * (key + self.multiplier * part)
        if not len(self.keys):
            return self.default.expand(x.shape[0], -1)
        key = key ^ (-(1 << 63))
        at = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        found = held & (self.keys[at] == key)
        return torch.where(found[:, None], self.values[at], self.default)


def _signed(key: Array) -> Array:
    """Return the bits of uint64 as int64."""
    result: Array = np.ascontiguousarray(key, np.uint64).view(np.int64).copy()
    return result
