"""treelite: models and checkpoints, with the semantics of its own inference, and written back."""

from bitvec.converters.treelite.read import convert, oracle_of
from bitvec.converters.treelite.write import to_treelite

__all__ = ["convert", "oracle_of", "to_treelite"]
