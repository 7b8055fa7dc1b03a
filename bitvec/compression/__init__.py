"""Compression: the best model within a budget of bytes, leaves or microseconds."""

from __future__ import annotations

from bitvec.compression.budget import Budget
from bitvec.compression.compress import compress
from bitvec.compression.compress_result import CompressResult
from bitvec.compression.front import Front, Point

__all__ = ["Budget", "CompressResult", "Front", "Point", "compress"]
