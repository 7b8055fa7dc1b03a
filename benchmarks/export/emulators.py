"""Headers on other processors: the tests that run them in emulators, counted."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from typing import Any, Final

from benchmarks.report import ROOT

TESTS: Final = "tests/runtime/export/c/test_emulators.py"
PROCESSORS: Final = {
    "qemu-aarch64": ("test_64_bit_arm", ("aarch64-linux-gnu-gcc", "qemu-aarch64")),
    "Cortex-M": ("test_cortex_m", ("arm-none-eabi-gcc", "qemu-system-arm")),
}
SECONDS: Final = 240.0


def measured() -> list[dict[str, Any]]:
    """Return for each kind of processor how many tests passed and failed, or why none ran."""
    return [
        {"what": "emulator", "processor": name, **_ran(test, tools)}
        for name, (test, tools) in PROCESSORS.items()
    ]


def _ran(test: str, tools: tuple[str, ...]) -> dict[str, Any]:
    absent = [tool for tool in tools if shutil.which(tool) is None]
    absent += [] if importlib.util.find_spec("pytest") else ["pytest"]
    if absent:
        return {"reason": f"{', '.join(absent)} is not installed"}
    command = [sys.executable, "-m", "pytest", "-q", TESTS, "-k", test]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"no answer in {SECONDS:g} s"}
    counted = {w: int(n) for n, w in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    failed = counted.get("failed", 0) + counted.get("error", 0)
    if not counted.get("passed", 0) + failed:
        return {"reason": "no test ran"}
    return {"passed": counted.get("passed", 0), "failed": failed}
