"""Export every model in every form, and say whether every figure that is asked for was met."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from benchmarks import environments
from benchmarks.export import big, emulators, forms, peers
from benchmarks.export.measure import FULL, QUICK, measured, say
from benchmarks.export.models import MODELS
from benchmarks.export.models import QUICK as QUICK_MODELS
from benchmarks.export.summary import targets
from benchmarks.export.tables import everything
from benchmarks.report import finish, parser


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--peers-dir", type=Path, help="environments of other libraries")
    arguments.add_argument("--make-peers", action="store_true", help="make these, and end")
    arguments.add_argument("--only", default="", help="models whose name contains this")
    options = arguments.parse_args()
    if options.make_peers:
        if options.peers_dir is None:
            arguments.error("--make-peers needs --peers-dir: the folder to make them in")
        environments.make(options.peers_dir, peers.REQUIREMENTS)
        return
    chosen = [
        model
        for model in MODELS
        if options.only.lower() in model.name.lower()
        and (not options.quick or model.name in QUICK_MODELS)
    ]
    if not chosen:
        arguments.error(f"--only must be part of the name of a model, got {options.only!r}")
    # Exporters warn of their own old calls.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        forms.warm_up(Path(folder))
    size = QUICK if options.quick else FULL
    places = None if options.quick else options.peers_dir
    rows = [row for model in chosen for row in measured(model, size, environments=places)]
    if not options.only:
        say("big")
        rows += big.measured(0.01 if options.quick else 1.0)
    if not options.quick and not options.only:
        say("emulators")
        rows += emulators.measured()
    whole = not options.quick and not options.only
    finish("export", options, rows, targets(rows, whole=whole), table=everything)


if __name__ == "__main__":
    main()
