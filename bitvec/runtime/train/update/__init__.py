"""Update: move a forest's thresholds and leaves to new rows, anchored to where they were."""

from __future__ import annotations

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.train.update")

from bitvec.runtime.train.update.update import update
from bitvec.runtime.train.update.update_result import UpdateResult

__all__ = ["UpdateResult", "update"]
