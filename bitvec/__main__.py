"""`python -m bitvec` is `bitvec`."""

from __future__ import annotations

from bitvec.cli import main

main()
