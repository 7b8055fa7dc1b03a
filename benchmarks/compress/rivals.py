"""Rivals that are not trees: a network of 8-bit weights, and the linked program of a header."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.export.flash import FLAGS, HERE, size_of
from bitvec.compression.front import Point
from bitvec.core.arrays import Array

ALPHAS: Final = (1e-3, 1e-1)
EPOCHS: Final = 60
MOST_UNITS: Final = 256


def units(size: int, n_columns: int, n_outputs: int) -> int:
    """Return the hidden units of a network of so many bytes: one a weight, four a bias."""
    return max(2, min(MOST_UNITS, (size - 4 * n_outputs) // (n_columns + n_outputs + 4)))


class Network:
    """A hidden layer of rectified units, its weights rounded to 8 bits after training.

    Columns are standardised, missing values at the mean; neither is counted. Of two decays the
    one of least loss on the rows held out is kept, after rounding, and trained anew on all rows.
    """

    def __init__(
        self, rows: tuple[Array, Array], held_out: tuple[Array, Array], n_classes: int, seed: int
    ) -> None:
        self._rows_to_fit, self._held_out = rows, held_out
        self._all = tuple(map(np.concatenate, zip(rows, held_out, strict=True)))
        self.n_classes, self._seed = n_classes, seed
        self._n = 0

    def fit(self, size: int) -> int:
        """Fit a network of so many bytes; return its units."""
        n_columns = self._all[0].shape[1]
        n = units(size, n_columns, self.n_classes if self.n_classes > 2 else 1)
        if n != self._n:
            losses = {}
            for alpha in ALPHAS:
                self._train(self._rows_to_fit, n, alpha)
                losses[alpha] = self._loss(self.parts, self._held_out)
            self._train(self._all, n, min(losses, key=losses.__getitem__))
            self._n = n
        return n

    def _train(self, rows: tuple[Array, ...], n: int, alpha: float) -> None:
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        X, y = rows
        self.center, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        n_classes = self.n_classes
        self.base, self.scale = (0.0, 1.0) if n_classes else (float(y.mean()), float(y.std()))
        made = MLPClassifier if n_classes else MLPRegressor
        model: Any = made(
            hidden_layer_sizes=(n,),
            alpha=alpha,
            learning_rate_init=3e-3,
            max_iter=EPOCHS,
            batch_size=32,
            random_state=self._seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(self._rows(X), y if n_classes else (y - self.base) / self.scale)
        self.parts = [*map(_rounded, model.coefs_)], model.intercepts_

    def _rows(self, X: Array) -> Array:
        return np.nan_to_num((X - self.center) / self.spread)

    def _raw(self, parts: Any, X: Array) -> Array:
        (first, last), (b, c) = parts
        found: Array = np.maximum(self._rows(X) @ first + b, 0) @ last + c
        return found

    def _loss(self, parts: Any, rows: tuple[Array, Array]) -> float:
        raw, y = self._raw(parts, rows[0]), rows[1]
        if not self.n_classes:
            return float(np.mean((raw[:, 0] * self.scale + self.base - y) ** 2))
        if raw.shape[1] == 1:
            raw = np.concatenate([np.zeros_like(raw), raw], axis=1)
        raw = raw - raw.max(axis=1, keepdims=True)
        own = raw[np.arange(len(y)), y]
        return float(np.mean(np.log(np.exp(raw).sum(axis=1)) - own))

    def answer(self, X: Array) -> Array:
        """Return class numbers, or values."""
        raw = self._raw(self.parts, X)
        if not self.n_classes:
            return raw[:, 0] * self.scale + self.base
        return (raw[:, 0] > 0).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)


def _rounded(weights: Array) -> Array:
    """Return weights in 8 bits, each unit with a scale of its own."""
    step = np.abs(weights).max(axis=0) / 127 + 1e-12
    return np.round(weights / step) * step


def program_bytes(point: Point) -> int | None:
    """Return text and data of a linked program for a Cortex-M4 that asks the model for a score.

    None where arm-none-eabi-gcc is not installed. It holds the C library's start and nothing else.
    """
    if shutil.which("arm-none-eabi-gcc") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        point.header().save(place / "model.h")
        (place / "main.c").write_text(_MAIN, "ascii")
        command = ["arm-none-eabi-gcc", "-std=c99", "-Os", *FLAGS, "-o", place / "program"]
        link = [HERE / "startup.c", "--specs=rdimon.specs", f"-T{HERE / 'cortex_m.ld'}", "-lm"]
        done = subprocess.run([*command, place / "main.c", *link], capture_output=True, check=False)
        return None if done.returncode else size_of(place / "program", "arm-none-eabi-size")


_MAIN: Final = """#include "model.h"
static volatile model_input given[MODEL_N_FEATURES];
static volatile model_score kept;
int main(void)
{
    model_input x[MODEL_N_FEATURES];
    model_score raw[MODEL_N_OUTPUTS];
    int i;
    for (i = 0; i < MODEL_N_FEATURES; i++) {
        x[i] = given[i];
    }
    model_raw(x, raw);
    kept = raw[0];
    return 0;
}
"""
