"""Programs of C around headers: compiled once for several forests, run here or in an emulator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bitvec.core import transforms
from bitvec.core.forest import Forest
from bitvec.runtime.export.c import CSource, to_c
from bitvec.runtime.export.c.literals import C_TYPES, number
from bitvec.runtime.export.c.whole_labels import adds_by_class

HERE = Path(__file__).resolve().parent
STRICT = (
    *("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wsign-conversion"),
    *("-Wdouble-promotion", "-Wshadow", "-Wundef"),
)


@dataclass(frozen=True)
class Case:
    """A header, the forest that it came from, and rows."""

    source: CSource
    forest: Forest
    X: np.ndarray


Answers = list[tuple[np.ndarray, np.ndarray]]
"""Exit leaves, (batch, n_trees), and raw scores, (batch, n_outputs), for each case."""

Run = Callable[..., Answers]


@dataclass(frozen=True)
class Target:
    """How programs are compiled and run."""

    compiler: str
    flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()

    def require(self) -> None:
        """Skip where a tool is absent."""
        for tool in (self.compiler, *self.emulator[:1]):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")


def program(cases: Sequence[Case]) -> str:
    """Return a program that prints the bytes of leaves and raw scores, one line for each row."""
    parts = ["#include <stdio.h>\n"] + [f'#include "{case.source.name}.h"\n' for case in cases]
    parts.append(_PUT)
    calls = []
    for case in cases:
        name, X = case.source.name, np.asarray(case.X, case.forest.dtype)
        words = ", ".join(number(value, X.dtype) for value in X.ravel())
        parts.append(f"static const {C_TYPES[X.dtype]} {name}_rows[{X.size}] = {{{words}}};\n")
        answer = _ANSWER.replace("LABEL", _LABEL if adds_by_class(case.forest) else "")
        answer = answer.replace("NAME", name.upper()).replace("name", name)
        parts.append(answer.replace("N_ROWS", str(len(X))))
        calls.append(f"    {name}_answer();\n")
    return "".join(parts) + f"int main(void)\n{{\n{''.join(calls)}    return 0;\n}}\n"


_PUT = """
static void put(const void *value, size_t size)
{
    const unsigned char *byte = (const unsigned char *)value;
    size_t i;
    for (i = 0; i < size; i++) {
        printf("%02x", (unsigned)byte[i]);
    }
    putchar(' ');
}
"""
_ANSWER = """
static void name_answer(void)
{
    name_leaf leaf[NAME_N_TREES];
    name_score raw[NAME_N_OUTPUTS];
    int row;
    for (row = 0; row < N_ROWS; row++) {
        const name_input *x = name_rows + row * NAME_N_FEATURES;
        name_leaves(x, leaf);
        name_raw(x, raw);
        put(leaf, sizeof leaf);
        put(raw, sizeof raw);
        LABEL
        putchar('\\n');
    }
}
"""
_LABEL = "{ const uint16_t label = name_label(x); put(&label, sizeof label); }"


def run(
    target: Target, folder: Path, cases: Sequence[Case], *flags: str, strict: bool = True
) -> Answers:
    """Compile one program of all cases, run it, and return what it answers.

    Labels that are taken from sums of leaves are compared with those of its scores.
    """
    target.require()
    for case in cases:
        case.source.save(folder / f"{case.source.name}.h")
    (folder / "main.c").write_text(program(cases))
    built = folder / "program"
    command = [target.compiler, *target.flags, *(STRICT if strict else ()), *flags, f"-I{folder}"]
    command += ["-o", str(built), str(folder / "main.c")]
    command += [*target.sources, *target.libraries, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    done = subprocess.run(
        [*target.emulator, str(built)], capture_output=True, text=True, check=True, timeout=120
    )
    lines = iter(done.stdout.splitlines())
    answers = []
    for case in cases:
        found = [[bytes.fromhex(word) for word in next(lines).split()] for _ in case.X]
        n_trees, output = case.forest.n_trees, case.forest.output
        leaves = [np.frombuffer(a, f"<u{len(a) // n_trees}").astype(int) for a, *_ in found]
        scores = np.stack([np.frombuffer(b, output.dtype) for _, b, *_ in found])
        if adds_by_class(case.forest):
            labels = [output.classes[0][int.from_bytes(c, "little")] for _, _, c in found]
            assert labels == transforms.predictions(output, scores).tolist()
        answers.append((np.stack(leaves), scores))
    return answers


@pytest.fixture
def gcc(tmp_path: Path) -> Run:
    """Programs for this machine."""
    target = Target("gcc")
    target.require()
    return lambda cases, *flags, **options: run(target, tmp_path, cases, *flags, **options)


@pytest.fixture
def aarch64(tmp_path: Path) -> Run:
    """Programs for 64-bit ARM, in QEMU."""
    target = Target("aarch64-linux-gnu-gcc", libraries=("-static",), emulator=("qemu-aarch64",))
    target.require()
    return lambda cases, *flags, **options: run(target, tmp_path, cases, *flags, **options)


CORTEX_M = {
    "M3": ("mps2-an385", ("-mcpu=cortex-m3",)),
    "M4": ("mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")),
    "M7": ("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard")),
}


@pytest.fixture(params=list(CORTEX_M))
def cortex_m(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Programs for a bare Cortex-M, in QEMU; output by semihosting."""
    machine, flags = CORTEX_M[request.param]
    options = ("-nographic", "-monitor", "none", "-serial", "none")
    target = Target(
        "arm-none-eabi-gcc",
        ("-mthumb", *flags, "--specs=rdimon.specs", f"-T{HERE / 'cortex_m.ld'}"),
        (str(HERE / "startup.c"),),
        (),
        (
            *("qemu-system-arm", "-machine", machine, *options),
            *("-semihosting-config", "enable=on,target=native", "-kernel"),
        ),
    )
    target.require()
    return lambda cases, *flags, **rest: run(target, tmp_path, cases, *flags, **rest)


def _case_of(forest: Forest, X: np.ndarray, **options: str) -> Case:
    return Case(to_c(forest, **options), forest, X)


@pytest.fixture
def case_of() -> Callable[..., Case]:
    """From a forest, rows and the options of `to_c` to a case."""
    return _case_of


def _same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    bits = f"u{expected.itemsize}"
    same = found.view(bits) == expected.view(bits)
    # The sign and payload of a NaN that arithmetic makes are the processor's own.
    return found.dtype == expected.dtype and bool(
        np.all(same | (np.isnan(found) & np.isnan(expected)))
    )


@pytest.fixture
def same_bits() -> Callable[[np.ndarray, np.ndarray], bool]:
    """Whether two arrays hold the same bits, or NaN both."""
    return _same_bits


@pytest.fixture
def stump() -> Forest:
    """One node of two columns, and its two leaves."""
    return Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])
