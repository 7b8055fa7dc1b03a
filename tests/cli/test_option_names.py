"""Options of the command line and parameters of Python: one name for each pair, one default."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Any

import click
import pytest

import bitvec
from bitvec.cli.program import COMMANDS
from bitvec.converters.dispatch import convert

CALLS: dict[str, Callable[..., Any]] = {
    "convert": convert,
    "certify": bitvec.certify,
    "predict": bitvec.compile,
    "explain": bitvec.explain,
    "retrain": bitvec.retrain,
    "update": bitvec.update,
    "calibrate": bitvec.calibrate,
    "compress": bitvec.compress,
    "diff": bitvec.diff,
    "prune": bitvec.prune,
    "export": bitvec.export,
}
"""The call that a command makes with its options."""

COMMON = {
    "--out": "the file that is written",
    "--data": "the file of rows that X is read from",
    "--header": "how a text file is read",
    "--json": "how the answer is printed",
    "--debug": "how an error is printed",
}
"""Options of files and of the terminal, which no call has, with the reason."""

OWN = {
    "convert": {
        "--force": "whether a file may be replaced",
        "--certify": "a call of its own, bitvec.certify",
        "--allow-values-only": "of the call that --certify makes",
    },
    "certify": {
        "--again": "a saved certificate to compare with",
        "--dtypes": "of the call that converts a MODEL",
    },
    "predict": {
        "--outputs": "of bitvec.BatchPredictor",
        "--keep": "of bitvec.BatchPredictor",
        "--drop": "of bitvec.BatchPredictor",
        "--format": "what is written is no concern of a predictor",
        "--processes": "processes of the caller's",
        "--resume": "files of an earlier run",
        "--force": "whether files may be replaced",
    },
    "explain": {},
    "retrain": {
        "--target": "the column of DATA that y is read from",
        "--plot": "a call of its own, History.plot",
    },
    "update": {
        "--grow-rounds": "a number that `grow` may be in place of True",
        "--target": "the column of DATA that y is read from",
        "--certify": "a call of its own, bitvec.certify",
        "--allow-values-only": "of the call that --certify makes",
    },
    "calibrate": {"--target": "the column of DATA that y is read from"},
    "compress": {
        "--target": "the column of DATA that y is read from",
        "--certify": "a call of its own, Point.certificate",
        "--name": "of a call of its own, Point.header",
    },
    "diff": {},
    "prune": {},
    "export": {
        "--certify": "a call of its own, bitvec.certify",
        "--allow-values-only": "of the call that --certify makes",
    },
}
"""Further options that no parameter has, with the reason."""

UPDATE_IN_PYTHON_ONLY = {
    "metrics": "functions",
    "progress": "a function, which the command line has itself",
}
"""The same of `update`."""

COMPRESS_IN_PYTHON_ONLY = {
    "progress": "a function, which the command line has itself",
}
"""The same of `compress`."""

PYTHON_ONLY = {
    "sample_weight": "an array",
    "teacher": "an array or a model",
    "spatial": "of the neighbours that the next two give",
    "spatial_shape": "of images, whose rows files of tables seldom hold",
    "spatial_matrix": "a matrix",
    "progress": "a function, which the command line has itself",
}
"""Keywords of `retrain` that a command line cannot hold, with the reason."""


def parameters(command: str) -> set[str]:
    """The parameters of a call, those of its groups among them in place of the groups."""
    from bitvec.runtime.train.retrain import Penalties, Schedule

    found = set(inspect.signature(CALLS[command]).parameters)
    for name, kind in (("schedule", Schedule), ("penalties", Penalties)):
        if name in found:
            found = found - {name} | {field.name for field in fields(kind)}
    return found


def options(command: str) -> dict[str, click.Parameter]:
    found = import_module(COMMANDS[command]).command.params
    return {
        next(name for name in option.opts if name.startswith("--")): option
        for option in found
        if isinstance(option, click.Option)
    }


@pytest.mark.parametrize("command", CALLS)
def test_an_option_has_the_name_of_its_parameter(command: str) -> None:
    known = parameters(command)
    unpaired = {name for name in options(command) if name[2:].replace("-", "_") not in known}
    assert unpaired - COMMON.keys() == OWN[command].keys()


def test_retrain_offers_every_keyword_that_a_command_line_can_hold() -> None:
    offered = {name[2:].replace("-", "_") for name in options("retrain")}
    assert parameters("retrain") - {"forest", "X", "y"} - offered == PYTHON_ONLY.keys()


def test_update_offers_every_keyword_that_a_command_line_can_hold() -> None:
    signature = inspect.signature(bitvec.update).parameters
    keywords = {name for name, p in signature.items() if p.kind is p.KEYWORD_ONLY}
    offered = {name[2:].replace("-", "_") for name in options("update")}
    assert keywords - offered == UPDATE_IN_PYTHON_ONLY.keys()


def test_compress_offers_every_keyword_that_a_command_line_can_hold() -> None:
    signature = inspect.signature(bitvec.compress).parameters
    keywords = {name for name, p in signature.items() if p.kind is p.KEYWORD_ONLY}
    offered = {name[2:].replace("-", "_") for name in options("compress")}
    assert keywords - offered == COMPRESS_IN_PYTHON_ONLY.keys()


def test_predict_offers_every_keyword_of_compile_but_one_that_a_run_needs_not() -> None:
    keywords = set(inspect.signature(bitvec.compile).parameters) - {"forest", "warm"}
    assert keywords <= {name[2:].replace("-", "_") for name in options("predict")}


@pytest.mark.parametrize(
    "command",
    [
        "certify",
        "predict",
        "explain",
        "retrain",
        "update",
        "calibrate",
        "compress",
        "export",
        "prune",
    ],
)
def test_an_option_has_the_default_of_its_parameter(command: str) -> None:
    parameters = inspect.signature(CALLS[command]).parameters
    compared = 0
    for name, option in options(command).items():
        parameter = parameters.get(name[2:].replace("-", "_"))
        default = option.to_info_dict()["default"]
        if parameter is not None and isinstance(default, str | int | float):
            assert str(parameter.default) == str(default), name
            compared += 1
    assert compared
