"""The command line: one module per command, loaded when it is called."""

from __future__ import annotations


def main() -> None:
    """Run the command line; an interruption is one line from the first import on."""
    try:
        from bitvec.cli.program import run

        run()
    except KeyboardInterrupt:
        import sys

        from bitvec.cli.streams import HALTED, INTERRUPTED

        print(f"Error: {HALTED}", file=sys.stderr)
        sys.exit(INTERRUPTED)
