"""The command line: one module per command, loaded when it is called."""

from __future__ import annotations

from bitvec.cli.program import main as main
from bitvec.cli.program import program as program
