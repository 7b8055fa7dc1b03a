"""The last results of each system and version, in `tested.json`, shown by tables of the docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]
PATH = Path(__file__).resolve().parent / "tested.json"


def keep(part: str, rows: list[Row], *key: str) -> None:
    """Put rows into a part, in the place of those that have the same values of the key."""
    kept = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    merged = {tuple(row[name] for name in key): row for row in [*kept.get(part, []), *rows]}
    kept[part] = list(merged.values())
    PATH.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
