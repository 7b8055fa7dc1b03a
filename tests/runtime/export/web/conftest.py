"""A Chromium that opens the pages of forests.

Needs node, a Chromium, and the npm packages onnxruntime-web and playwright-core. These are found
in the folder that BITVEC_NODE_MODULES names, or else installed into pytest's cache.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.runtime.export.web import write

HERE = Path(__file__).parent
PACKAGES = ("onnxruntime-web", "playwright-core")


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    return found


@pytest.fixture(scope="module")
def node_modules(node: str, request: pytest.FixtureRequest) -> Path:
    modules = _node_modules(request.config)
    if os.environ.get("BITVEC_NODE_MODULES"):
        return modules
    if not all((modules / name).is_dir() for name in PACKAGES):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed")
        command = [npm, "install", "--prefix", str(modules.parent), "--no-audit", "--no-fund"]
        command += PACKAGES
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"npm cannot install {', '.join(PACKAGES)}: {done.stderr[-300:]}")
    return modules


def _node_modules(config: pytest.Config) -> Path:
    named = os.environ.get("BITVEC_NODE_MODULES")
    return Path(named) if named else Path(config.cache.mkdir("npm")) / "node_modules"


@pytest.fixture
def onnxruntime_web(node: str, request: pytest.FixtureRequest) -> Path:
    """The folder of the npm package, which only long tests install."""
    if request.node.get_closest_marker("full"):
        request.getfixturevalue("node_modules")
    package = _node_modules(request.config) / "onnxruntime-web"
    if not package.is_dir():
        pytest.skip("the npm package onnxruntime-web is not installed")
    return package


@pytest.fixture(scope="module")
def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("chromium is not installed")
    return found


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Browser:
    """Pages of forests, driven through steps of `drive.cjs`."""

    def __init__(self, node: str, node_modules: Path, chromium: str, folder: Path) -> None:
        self.node, self.node_modules, self.chromium = node, node_modules, chromium
        self.folder = folder

    def page(self, forest: Forest, model: Any = None, **options: Any) -> Path:
        return write(
            forest,
            _to_onnx(forest) if model is None else model,
            self.folder / "page",
            onnxruntime_web=self.node_modules / "onnxruntime-web",
            **options,
        )

    def drive(self, steps: list[list[Any]], **options: Any) -> dict[str, Any]:
        """Return what was read, after checks that hold for every page."""
        job = self.folder / "job.json"
        with served(self.folder / "page") as url:
            facts = {
                "playwright": str(self.node_modules / "playwright-core"),
                "chromium": self.chromium,
                "url": url,
                "steps": steps,
            }
            job.write_text(json.dumps(facts | options))
            command = [self.node, str(HERE / "drive.cjs"), str(job)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["console"] == []
        assert told["state"] == "ready"
        away = [url_ for url_ in told["requests"] if not url_.startswith((url, "blob:" + url))]
        assert away == []
        return told["read"]

    def predict(self, rows: Path) -> tuple[list[str], np.ndarray]:
        """Return the header and the cells of the predictions of a file, and check the trees."""
        target = self.folder / "predictions.csv"
        read = self.drive(
            [
                ["file", "#file", str(rows)],
                ["wait", "#download:not([hidden])"],
                ["download", "#download", str(target)],
                ["text", "problem", "#problem"],
            ]
        )
        assert read["problem"] == ""
        with target.open(newline="") as stream:
            header, *cells = csv.reader(stream)
        return header, np.array(cells)


@pytest.fixture
def browser(node: str, node_modules: Path, chromium: str, tmp_path: Path) -> Browser:
    return Browser(node, node_modules, chromium, tmp_path)


def _to_onnx(forest: Forest) -> Any:
    from bitvec.runtime.export.onnx.tensor import to_onnx

    return to_onnx(forest, leaves=True)


@pytest.fixture
def iris() -> tuple[Any, Any, Forest]:
    """The rows, a model of named classes, and its forest."""
    datasets = pytest.importorskip("sklearn.datasets")
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = datasets.load_iris(as_frame=True)
    names = data.target_names[data.target]
    model = ensemble.RandomForestClassifier(20, max_depth=4, random_state=0).fit(data.data, names)
    return data.data, model, bitvec.convert(model)
