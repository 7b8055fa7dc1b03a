"""`python -m bitvec.cli` is `bitvec`."""

from __future__ import annotations

from bitvec.cli.program import main

main()
