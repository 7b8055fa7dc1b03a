"""The page's Dockerfile, built where Docker runs, else its steps run in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import bitvec

pytestmark = pytest.mark.full
ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "serve.md"
PLACE = "/service"
"""Working directory of the page's Dockerfile."""


def dockerfile() -> str:
    [found] = re.findall(r"```dockerfile\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return found


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction with its arguments, lines that go on joined."""
    for line in text.replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            name, _, arguments = line.partition(" ")
            yield name, arguments


def daemon() -> bool:
    """Tell whether Docker is installed and its service answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def shared_python() -> str | None:
    """Return a Python of this version that another user may run, if this user may be another."""
    if os.geteuid() != 0:
        return None
    name = "python{}.{}".format(*sys.version_info[:2])
    for path in (sys._base_executable, shutil.which(name, path="/usr/local/bin:/usr/bin")):
        try:
            command = [path or "", "-c", "import ensurepip, venv"]
            subprocess.run(command, user="nobody", check=True, capture_output=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return path
    return None


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Path:
    """What the page says to lay beside the Dockerfile: wheels and a forest."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("context")
    source = folder / "source"
    shutil.copytree(ROOT / "bitvec", source / "bitvec", ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "wheel", "--wheel-dir", str(wheels)]
    alone = ["--no-deps", "--no-build-isolation", "--no-index", str(source)]
    subprocess.run([*pip, *alone], check=True, capture_output=True)
    [wheel] = wheels.glob("bitvec_trees-*.whl")
    done = subprocess.run(
        [*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}[serve]"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and "connection broken by" in done.stderr:
        pytest.skip("the package index did not answer, and the wheels come from there")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(source)
    rng = np.random.default_rng(0)
    forest = bitvec.Forest.from_matrices(
        np.eye(2), [0.5, -0.5], [[0, 0], [0, 1], [1, 1]], rng.normal(size=(3, 1))
    )
    bitvec.save(forest, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o600)  # readable all the same, by the user of the image
    (folder / "Dockerfile").write_text(dockerfile())
    return folder


def rows_and_answers(context: Path) -> tuple[list[list[float]], list[float]]:
    X = np.random.default_rng(1).normal(size=(50, 2))
    predictor = bitvec.compile(bitvec.load(context / "model.safetensors"))
    return X.tolist(), predictor.predict(X).tolist()


def assert_serves(address: str, context: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            assert urlopen(f"{address}/v2/health/ready").status == 200
            break
        except (URLError, ConnectionError):
            assert time.monotonic() < end, "the service did not become ready"
            time.sleep(0.1)
    rows, expected = rows_and_answers(context)
    answer = json.load(urlopen(Request(f"{address}/predict", json.dumps(rows).encode())))
    assert [row["prediction"] for row in answer] == expected
    tensor = {"name": "rows", "datatype": "FP64", "shape": [50, 2], "data": rows}
    body = json.dumps({"inputs": [tensor]}).encode()
    answer = json.load(urlopen(Request(f"{address}/v2/models/model/infer", body)))
    assert answer["outputs"][0]["data"] == expected


def test_docker_builds_the_image_and_it_serves(context):
    if not daemon():
        pytest.skip("no Docker here: the steps of its file are run by the next test")
    tag = f"bitvec-test-{os.getpid()}"
    subprocess.run(["docker", "build", "-t", tag, str(context)], check=True)
    run = ["docker", "run", "--rm", "--detach", "--read-only", "-p", "127.0.0.1::8080", tag]
    try:
        name = subprocess.check_output(run, text=True).strip()
        port = subprocess.check_output(["docker", "port", name, "8080"], text=True)
        assert_serves(f"http://127.0.0.1:{port.strip().rsplit(':', 1)[1]}", context)
        logs = subprocess.run(["docker", "logs", name], check=True, capture_output=True, text=True)
        assert "compiles kernels" not in logs.stderr
        begun = time.monotonic()
        subprocess.run(["docker", "stop", name], check=True, capture_output=True)
        assert time.monotonic() - begun < 9  # after ten seconds it is killed
    finally:
        subprocess.run(["docker", "image", "rm", "--force", tag], check=False)


class Stages:
    """The stages of a Dockerfile, run one after the other in one folder in place of `/service`."""

    def __init__(self, context: Path, folder: Path, python: str) -> None:
        self.context, self.folder, self.here = context, folder, folder / "now"
        self.finished: dict[str, Path] = {}
        self.stage = ""
        search = [str(folder / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
        (folder / "bin").mkdir()
        for name in ("python", "python3"):
            (folder / "bin" / name).symlink_to(python)
        self.outside = {
            "PATH": os.pathsep.join(search), "HOME": "/nonexistent", "PIP_NO_INDEX": "1",
            "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "LANG": "C.UTF-8",
        }  # fmt: skip

    def run(self, text: str) -> None:
        for name, arguments in instructions(text):
            getattr(self, name)(arguments if name == "COPY" else self.placed(arguments))

    def placed(self, text: str) -> str:
        return text.replace(PLACE, str(self.here))

    def FROM(self, image: str) -> None:
        if self.stage:
            self.finished[self.stage] = self.here.rename(self.folder / self.stage)
        self.here.mkdir()
        self.stage = image.partition(" AS ")[2] or "last"
        self.environment, self.user, self.ran = dict(self.outside), "root", 0

    def WORKDIR(self, place: str) -> None:
        assert place == str(self.here)

    def COPY(self, arguments: str) -> None:
        words = shlex.split(arguments)
        options = dict(word[2:].split("=") for word in words if word.startswith("--"))
        source, target = (word for word in words if not word.startswith("--"))
        origin = self.context / source
        if "from" in options:
            origin = self.finished[options.pop("from")] / Path(source).relative_to(PLACE)
        target = self.here / (origin.name if target == "." else target)
        if origin.is_dir():
            shutil.copytree(origin, target, symlinks=True)
        else:
            shutil.copy(origin, target)
        if "chmod" in options:
            target.chmod(int(options.pop("chmod"), 8))
        assert not options, f"not known here: {options}"

    def RUN(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.here, env=self.environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        self.ran += 1

    def ENV(self, assignments: str) -> None:
        self.environment |= dict(word.split("=", 1) for word in shlex.split(assignments))

    def USER(self, name: str) -> None:
        self.user = name

    def EXPOSE(self, port: str) -> None:
        self.port = port

    def HEALTHCHECK(self, arguments: str) -> None:
        self.health = arguments.partition("CMD ")[2]

    def CMD(self, arguments: str) -> None:
        self.command = json.loads(arguments)


def test_the_steps_of_the_dockerfile_make_a_service_without_network(context):
    python = shared_python()
    folder = Path(tempfile.mkdtemp())  # that other users may read, unlike those of pytest
    try:
        folder.chmod(0o755)
        stages = Stages(context, folder, python or sys._base_executable)
        stages.run(dockerfile())
        assert stages.user != "root"
        assert not (stages.here / "wheels").exists()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        # Another user where that can be: the files are the image's own, which it cannot write.
        who = {"user": stages.user} if python else {}
        place = {"cwd": stages.here, "env": stages.environment, "text": True}
        service = subprocess.Popen(
            [*stages.command, "--port", port], stderr=subprocess.PIPE, **place, **who
        )
        try:
            assert_serves(f"http://127.0.0.1:{port}", context)
            check = ["/bin/sh", "-c", stages.health.replace(stages.port, port)]
            assert subprocess.run(check, check=False, **place, **who).returncode == 0
            service.send_signal(signal.SIGTERM)
            said = service.communicate(timeout=30)[1]
        finally:
            service.kill()
            service.wait()
        assert service.returncode in (0, -signal.SIGTERM)
        assert said == ""  # no kernel was compiled: that would be said
        assert subprocess.run(check, check=False, capture_output=True, **place, **who).returncode
    finally:
        shutil.rmtree(folder)
