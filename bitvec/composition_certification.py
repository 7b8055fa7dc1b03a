"""Comparison of a composition with the ensemble that it came from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Literal

import numpy as np

from bitvec import certification
from bitvec.converters.compositions.oracle import ensemble_of
from bitvec.converters.pipelines.oracle import raw_rows
from bitvec.core.arrays import Array
from bitvec.core.composition import Composition, Member
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.composition_predictor import CompositionPredictor
from bitvec.verify.certificates import Certificate
from bitvec.verify.certificates.composition_certificate import CompositionCertificate
from bitvec.verify.probing import probe_rows

MEMBER_BLOCKS = 2
"""Blocks of rows for the nodes of each member on which combined answers are compared."""
CODED = (
    "rows made for nodes were left out, for columns of categories are known by code to the forests "
    "alone: pass rows as X"
)


def compared(
    composition: Composition,
    model: Any,
    X: Any,
    *,
    engine: str,
    seed: int,
    allow_values_only: bool,
    progress: Callable[[float], None] | Literal[False] | None,
) -> CompositionCertificate:
    """Return the certificate of a comparison; options are those of `bitvec.certify`."""
    ensemble = ensemble_of(model)
    if len(ensemble.members) != len(composition.members):
        raise InputError(
            "a composition must be compared with the ensemble that it came from, got one of "
            f"{len(ensemble.members)} members for {len(composition.members)}: pass that."
        )
    options: dict[str, Any] = {"engine": engine, "seed": seed, "progress": progress}
    options |= {"allow_values_only": allow_values_only}
    certificates = tuple(
        _of_member(member, source, X, options)
        for member, source in zip(composition.members, ensemble.members, strict=True)
    )
    predictor = CompositionPredictor(composition, engine=engine)
    tables = [] if X is None else [X]
    made = _made(composition, seed)
    if made is not None:
        tables.append(made)
    n_rows = n_differ = n_labels = most = 0
    for table in tables:
        ours, theirs = predictor.answer(table), ensemble.answer(table)
        if ours.shape != theirs.shape:
            raise InputError(
                f"answers must have the shape {ours.shape}, got {theirs.shape} of the ensemble: "
                "it is another model."
            )
        apart = ulps(ours, theirs).reshape(len(ours), -1).max(axis=1, initial=0)
        n_rows, n_differ = n_rows + len(ours), n_differ + int((apart > 0).sum())
        most = max(most, int(apart.max(initial=0)))
        if composition.classes is not None:
            n_labels += int((predictor.predict(table) != ensemble.predict(table)).sum())
    notes = () if made is not None else (CODED,)
    oracle = f"{ensemble.name} {ensemble.version}"
    return CompositionCertificate(certificates, n_rows, n_differ, n_labels, most, oracle, notes)


def _of_member(
    member: Member, source: Any, X: Any, options: dict[str, Any]
) -> Certificate | CompositionCertificate:
    if member.columns is not None and X is not None:
        X = np.asarray(X)[:, list(member.columns)]
    if isinstance(member.model, Composition):
        return compared(member.model, source, X, **options)
    return certification.compared(member.model, source, X, exported=None, **options)


def _made(composition: Composition, seed: int) -> Any:
    """Return rows for the nodes of the members, as the ensemble is handed them."""
    inputs = composition.inputs
    if inputs.categories is not None and inputs.domains is None:
        return None
    dtype = np.dtype(inputs.number_dtype or np.float64)
    missing = not any(_refuses_missing(forest) for forest in composition.forests)
    rows: list[Array] = [np.zeros((1, inputs.n_features), dtype)]
    for columns, forest in _forests(composition):
        probes = probe_rows(forest, seed=seed, missing=missing, infinite=False)
        found = [block for block, _ in islice(probes.blocks(), MEMBER_BLOCKS)]
        part = np.concatenate([np.zeros((0, forest.n_features), forest.dtype), *found])
        whole = np.zeros((len(part), inputs.n_features), dtype)
        whole[:, slice(None) if columns is None else list(columns)] = part
        rows.append(whole)
    X = np.concatenate(rows)
    for columns, forest in _forests(composition):
        read = X if columns is None else X[:, list(columns)]
        with np.errstate(over="ignore"):
            finite = ~np.isinf(read.astype(forest.dtype)).any(axis=1)
        X = X[finite & forest.inputs.takes(read)]
    return raw_rows(X, inputs)


def _refuses_missing(forest: Forest) -> bool:
    return forest.source is not None and forest.source.metadata.get("refuses_missing") is True


def _forests(composition: Composition) -> list[tuple[tuple[int, ...] | None, Forest]]:
    """Return the forests with the columns of X that each reads, None for all."""
    found: list[tuple[tuple[int, ...] | None, Forest]] = []
    for member in composition.members:
        if isinstance(member.model, Forest):
            found.append((member.columns, member.model))
            continue
        for columns, forest in _forests(member.model):
            if member.columns is not None:
                own = range(member.model.inputs.n_features) if columns is None else columns
                columns = tuple(member.columns[at] for at in own)
            found.append((columns, forest))
    return found
