"""Certificates: what was compared with what, on which rows, and what came of it."""

from bitvec.certificates.certificate import Certificate, compare, load
from bitvec.certificates.digest import forest_digest

__all__ = ["Certificate", "compare", "forest_digest", "load"]
