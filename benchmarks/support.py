"""Tables of which verb, and which target of export, works for which kind of forest: each is tried.

python -m benchmarks.support [--json] [--save]
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import bitvec
from benchmarks.report import Column, Goal, Row, Table, where
from benchmarks.runner import Benchmark, run
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError, InputError, MissingLibraryError
from bitvec.explanations.changes import smallest_changes
from bitvec.explanations.covers import with_cover
from bitvec.explanations.dependence import partial_dependence
from bitvec.plots.forests import draw_path
from bitvec.runtime.export.export_target import ALL_FORMS
from bitvec.runtime.export.onnx_targets import TARGETS

Array = np.ndarray
_RNG: Final = np.random.default_rng(0)
X: Final = _RNG.integers(0, 6, (240, 4)) + _RNG.random((240, 4)).round(2)
"""Rows whose whole parts are the codes of a category."""
VALUES: Final = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
NAMES: Final = np.floor(X[:, :3]).astype(int).astype(str).astype(object)
PAIRS: Final = np.column_stack([VALUES, -VALUES])
CLASSES: Final = (np.median(VALUES) < VALUES).astype(int) + (X[:, 3] > 4)
NO: Final = "**no**"
HELD: Final = ("yes", "proved", "two-sided")
ERROR: Final = "not a refusal: "
CODES: Final = np.column_stack([np.floor(X[:, :1]), X[:, 1:]])


class Kind(NamedTuple):
    """A kind of forest.

    Parameters
    ----------
    name : str
    made : callable
        The trained model, or the paper's tree, that is converted.
    X, y : array
        Rows that the forest reads, and their targets.
    """

    name: str
    made: Callable[[], Any]
    X: Array
    y: Array


def _xgboost(**options: Any) -> Any:
    import xgboost

    frame = _frame(CODES) if options.get("enable_categorical") else X
    given: dict[str, Any] = {"n_estimators": 3, "max_depth": 3, "n_jobs": 1, **options}
    if "multi_strategy" in options:
        return xgboost.XGBRegressor(**given).fit(frame, PAIRS)
    return xgboost.XGBClassifier(**given).fit(frame, CLASSES)


def _frame(codes: Array) -> Any:
    import pandas as pd

    columns = {f"x{j}": codes[:, j] for j in range(codes.shape[1])}
    return pd.DataFrame(columns).assign(x0=pd.Categorical(codes[:, 0].astype(int)))


def _lightgbm(**options: Any) -> Any:
    import lightgbm

    fit = {"categorical_feature": [0]} if options.pop("categories", False) else {}
    given: dict[str, Any] = {"n_estimators": 3, "num_leaves": 6, "n_jobs": 1, "verbose": -1}
    if options:
        return lightgbm.LGBMRegressor(**given, **options).fit(X, VALUES)
    return lightgbm.LGBMClassifier(**given).fit(CODES if fit else X, CLASSES, **fit)


def _random_forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0).fit(X, CLASSES)


def _isolation_forest() -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(n_estimators=4, max_samples=32, random_state=0).fit(X)


def _adaboost() -> Any:
    from sklearn.ensemble import AdaBoostRegressor

    return AdaBoostRegressor(n_estimators=4, random_state=0).fit(X, VALUES)


def _catboost() -> Any:
    import catboost

    options = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    model = catboost.CatBoostRegressor(
        iterations=4, depth=3, cat_features=[0, 1, 2], one_hot_max_size=2, **options
    )
    return model.fit(NAMES, VALUES)


def _tao() -> Any:
    from bitvec.learners import TAOClassifier

    return TAOClassifier(max_depth=3, oblique=True, restarts=1, random_state=0).fit(X, CLASSES)


def _cpt() -> Any:
    from bitvec.learners import CPTClassifier

    return CPTClassifier(max_depth=2, steps=20, refine=0, restarts=1, random_state=0).fit(
        X, CLASSES
    )


def _kddt() -> Any:
    from bitvec.learners import KDDTClassifier

    return KDDTClassifier(bandwidth=0.5, max_depth=3, random_state=0).fit(X, CLASSES)


def _e2edt() -> Any:
    from bitvec.learners import E2EDTClassifier

    return E2EDTClassifier(
        max_depth=2, split="mlp", hidden=4, steps=10, refine=0, random_state=0
    ).fit(X, CLASSES)


KINDS: Final = (
    Kind("boosted trees, float32 (xgboost)", _xgboost, X, CLASSES),
    Kind("boosted trees, float64 (LightGBM)", _lightgbm, X, CLASSES),
    Kind("random forest of classes (scikit-learn)", _random_forest, X, CLASSES),
    Kind("category sets (LightGBM)", lambda: _lightgbm(categories=True), CODES, CLASSES),
    Kind("category sets (xgboost)", lambda: _xgboost(enable_categorical=True), CODES, CLASSES),
    Kind(
        "vector leaves (xgboost)",
        lambda: _xgboost(multi_strategy="multi_output_tree"),
        X,
        PAIRS,
    ),
    Kind("linear leaves (LightGBM)", lambda: _lightgbm(linear_tree=True), X, VALUES),
    Kind("isolation forest (scikit-learn)", _isolation_forest, X, np.where(CLASSES > 0, 1, -1)),
    Kind("weighted median (AdaBoostRegressor)", _adaboost, X, VALUES),
    Kind("statistics of categories (CatBoost)", _catboost, NAMES, VALUES),
    Kind("oblique nodes (TAO)", _tao, X, CLASSES),
    Kind("polytopes (CPT)", _cpt, X, CLASSES),
    Kind("prediction kernel (KDDT)", _kddt, X, CLASSES),
    Kind("networks as splits (E2EDT)", _e2edt, X, CLASSES),
)


# ---- verbs: each either gives something or raises ----------------------------------------------
def _certified(model: Any, forest: Forest, kind: Kind) -> Any:
    certificate = bitvec.certify(forest, getattr(model, "tree_", model), kind.X)
    if not certificate.passed:
        raise InputError(f"the certificate must pass, got {certificate.grade}.")
    return certificate.grade


def _kept(model: Any, forest: Forest, kind: Kind) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bitvec.save(forest, f"{folder}/forest.safetensors")
        bitvec.load(f"{folder}/forest.safetensors")


def _retrained(**options: Any) -> Callable[[Any, Forest, Kind], object]:
    def tried(model: Any, forest: Forest, kind: Kind) -> object:
        return bitvec.retrain(
            forest, kind.X[:160], kind.y[:160], validation=(kind.X[160:], kind.y[160:]),
            budget=None, schedule={"steps": 4, "evaluations": 1}, **options,
        )  # fmt: skip

    return tried


def _in_torch(relaxation: str | None) -> Callable[[Any, Forest, Kind], object]:
    def tried(model: Any, forest: Forest, kind: Kind) -> object:
        import torch

        options = {} if relaxation is None else {"dtype": torch.float64}
        module = bitvec.to_torch(forest, relaxation, **options)
        return module(torch.tensor(_numbers(forest, kind), dtype=module.dtype))

    return tried


def _numbers(forest: Forest, kind: Kind) -> Array:
    return bitvec.compile(forest, engine="reference").rows(kind.X)


def _engine(name: str) -> Callable[[Any, Forest, Kind], object]:
    return lambda model, forest, kind: bitvec.compile(forest, engine=name).raw(kind.X)


VERBS: Final[dict[str, Callable[[Any, Forest, Kind], object]]] = {
    "`certify`": _certified,
    "`save`, `load`": _kept,
    "`compile`": _engine("numba"),
    '`compile`, `"torch"`': _engine("torch"),
    "`explain`": lambda model, forest, kind: bitvec.explain(forest).values(kind.X[:4]),
    "`explain`, background": lambda model, forest, kind: bitvec.explain(
        forest, background=kind.X[:20]
    ).values(kind.X[:4]),
    "`with_cover`": lambda model, forest, kind: with_cover(forest, kind.X),
    "`partial_dependence`": lambda model, forest, kind: partial_dependence(forest, kind.X, 1),
    "`smallest_changes`": lambda model, forest, kind: smallest_changes(forest, kind.X[:1]),
    "`retrain`, `v`": _retrained(trainable=("v",)),
    "`retrain`, `b` and `v`": _retrained(trainable=("b", "v")),
    "`retrain`, `S`, `b` and `v`": _retrained(trainable=("S", "b", "v")),
    "`update`": lambda model, forest, kind: bitvec.update(forest, kind.X, kind.y, steps=4),
    "`to_torch`": _in_torch(None),
    '`to_torch`, `"sigmoid"`': _in_torch("sigmoid"),
    "`prune`": lambda model, forest, kind: bitvec.prune(forest, kind.X),
    "`diff`": lambda model, forest, kind: bitvec.diff(forest, forest, kind.X),
    "`to_rules`": lambda model, forest, kind: forest.to_rules(),
    "`matrices`": lambda model, forest, kind: [*forest.matrices()],
    "`draw_path`": lambda model, forest, kind: draw_path(forest, _numbers(forest, kind)[0]),
}
LIBRARIES: Final = {"xgboost": "ubj", "lightgbm": "txt", "treelite": "tl", "sklearn": "skops"}
EXPORTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    **{f"`{library}`": (f"model.{end}", {"to": library}) for library, end in LIBRARIES.items()},
    "ONNX": ("model.onnx", {}),
    **{f"ONNX `{form}`": ("model.onnx", {"form": form}) for form in ALL_FORMS},
    **{f"C `{form}`": ("model.h", {"form": form}) for form in ("tables", "levels", "unrolled")},
    "SQL": ("model.sql", {"dialect": "duckdb"}),
    "`.pt2`": ("model.pt2", {}),
}
RUNTIMES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    f"`{name}`": ("model.onnx", {"target": name}) for name in TARGETS
}


def cases(options: Namespace) -> Iterable[str]:
    """Return the names of the kinds."""
    return [kind.name for kind in KINDS]


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield what one kind of forest supports: "yes", or why it is refused."""
    (kind,) = (kind for kind in KINDS if kind.name == name)
    model = kind.made()
    forest = bitvec.convert(model)
    for what, verb in VERBS.items():
        found = _tried(partial(verb, model, forest, kind))
        yield {"kind": name, "part": "verbs", "what": what, "found": found}
    for part, targets in (("exports", EXPORTS), ("runtimes", RUNTIMES)):
        for what, (file, facts) in targets.items():
            yield {"kind": name, "part": part, "what": what, "found": _written(forest, file, facts)}


def _written(forest: Forest, file: str, facts: dict[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return _tried(lambda: bitvec.export(forest, Path(folder) / file, **facts))


def _tried(work: Callable[[], object]) -> str:
    try:
        found = work()
    except MissingLibraryError as error:
        return f"not tried: {error}"
    except BitvecError as error:
        return str(error)
    except Exception as error:
        return f"{ERROR}{type(error).__name__}: {error}"
    return found if isinstance(found, str) else "yes"


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return that every kind is certified, kept and predicted by the CPU engine."""
    asked = ("`certify`", "`save`, `load`", "`compile`")
    refused = sum(row["what"] in asked and row["found"] not in HELD for row in rows)
    errors = sum(row["found"].startswith(ERROR) for row in rows)
    return [
        Goal("kinds that are not certified, kept and predicted", "0", refused, True),
        Goal("errors that are no refusals", "0", errors, True),
    ]


def _matrix(part: str) -> Table:
    """Return the table of a part: a line for each kind, a column for each thing tried."""
    heads = {"verbs": VERBS, "exports": EXPORTS, "runtimes": RUNTIMES}[part]

    def lines(rows: Sequence[Row]) -> list[Row]:
        return [
            {"kind": kind.name}
            | {row["what"]: row["found"] for row in where(rows, part=part, kind=kind.name)}
            for kind in KINDS
        ]

    return Table((Column("forest", "kind"), *(Column(head, _cell(head)) for head in heads)), lines)


def _cell(what: str) -> Callable[[Row], str]:
    return lambda row: sign(row[what])


def sign(found: str) -> str:
    """Return what a cell shows: a grade, yes, no, or that it was not tried."""
    if found in HELD:
        return found
    return "not tried" if found.startswith("not tried") else NO


def _reasons(rows: Sequence[Row]) -> list[Row]:
    """Return each reason once, with the forests and what was refused for it."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if sign(row["found"]) == NO:
            found.setdefault(row["found"], []).append(row)
    return [
        {
            "kinds": "; ".join(dict.fromkeys(row["kind"] for row in refused)),
            "what": "; ".join(dict.fromkeys(row["what"] for row in refused)),
            "because": reason,
        }
        for reason, refused in found.items()
    ]


BENCHMARK: Final = Benchmark(
    "support",
    cases,
    measure,
    goals,
    {
        **{part: _matrix(part) for part in ("verbs", "exports", "runtimes")},
        "reasons": Table(
            (Column("forest", "kinds"), Column("refused", "what"), Column("because", "because")),
            _reasons,
        ),
    },
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
