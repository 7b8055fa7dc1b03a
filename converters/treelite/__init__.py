"""treelite: models and checkpoints, with the semantics of its own inference."""

from bitvec.converters.treelite.gtil import convert, load, subject

__all__ = ["convert", "load", "subject"]
