"""xgboost's models as hummingbird reads them."""

from __future__ import annotations

from typing import Any


def readable(model: Any) -> Any:
    """Have an estimator of xgboost 3 say its base score as a number: it writes a list of one."""
    booster = model.get_booster()
    config = booster.save_config
    booster.save_config = lambda: _unlisted(config())
    model.get_booster = lambda: booster
    return model


def _unlisted(config: str) -> str:
    before, key, after = config.partition('"base_score":"[')
    value, end, rest = after.partition(']"')
    one = key and "," not in value
    return before + '"base_score":"' + value + '"' + rest if one and end else config
