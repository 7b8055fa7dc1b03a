"""Certificates: what was compared with what, on which rows, and what came of it."""

from bitvec.certificates.certificate import Certificate
from bitvec.certificates.comparing import compare
from bitvec.certificates.digest import forest_digest
from bitvec.certificates.reading import load

__all__ = ["Certificate", "compare", "forest_digest", "load"]
