"""treelite: models and checkpoints, with the semantics of its own inference, and written back."""

from bitvec.converters.treelite.reader import convert, oracle_of
from bitvec.converters.treelite.writer import to_treelite

__all__ = ["convert", "oracle_of", "to_treelite"]
