"""Retrain what was chosen, and say whether every figure that is asked for was met."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from benchmarks import environments
from benchmarks.report import finish, parser
from benchmarks.retrain import peers, work
from benchmarks.retrain.rows import with_means
from benchmarks.retrain.summary import selection, targets
from benchmarks.retrain.tables import everything

QUICK = ("segment, depth 8", "banknote, depth 4", "california, RandomForest")
LEAST_SEEDS = 3


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    return int(text)


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--data", type=Path, help="the folder of real data")
    arguments.add_argument("--peers-dir", type=Path, help="environments of other libraries")
    arguments.add_argument("--make-peers", action="store_true", help="make these, and end")
    arguments.add_argument(
        "--seeds", type=_count, default=LEAST_SEEDS, help="of splits and of training"
    )
    arguments.add_argument("--only", default="", help="cases whose name contains this")
    options = arguments.parse_args()
    if options.make_peers:
        if options.peers_dir is None:
            arguments.error("--make-peers needs --peers-dir: the folder to make them in")
        environments.make(options.peers_dir, peers.REQUIREMENTS)
        return
    if options.data is None:
        arguments.error("--data must name the folder of real data")
    works = work.everything(
        options.data,
        1 if options.quick else options.seeds,
        environments=options.peers_dir,
        quick=options.quick,
    )
    works = [one for one in works if options.only.lower() in one.case.lower()]
    if options.quick:
        works = [one for one in works if one.case in QUICK]
    if not works:
        arguments.error(f"--only must be part of the name of a case, got {options.only!r}")
    rows = with_means(work.run(works, options.data))
    rows.append(selection(rows))
    whole = not options.quick and not options.only and options.seeds >= LEAST_SEEDS
    finish("retrain", options, rows, targets(rows, whole=whole), table=everything)


if __name__ == "__main__":
    main()
