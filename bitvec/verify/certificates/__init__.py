"""Certificates: the two sides of a comparison, its rows and its result."""

from bitvec.verify.certificates.certificate import Certificate
from bitvec.verify.certificates.comparing import compare
from bitvec.verify.certificates.digest import forest_digest
from bitvec.verify.certificates.reading import load

__all__ = ["Certificate", "compare", "forest_digest", "load"]
