"""A forest as named arrays and one JSON record: what a file holds, and what makes two forests equal.

The arrays keep their bits. The record holds all that is no array, under the names of the fields.
Unpacking trusts nothing: every value is taken by name and type, and what is left over is refused.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.forest import Forest
from bitvec.inputs import Inputs
from bitvec.kernels import FeatureKernel
from bitvec.leaves import Leaves, LinearTerms
from bitvec.map_records import pack_map, unpack_map
from bitvec.node_tests import NodeTests
from bitvec.output import Aggregate, Output, PostTransform
from bitvec.source import Source
from bitvec.structure import Bitvectors
