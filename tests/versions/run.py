"""Convert the models that other versions of the libraries train, and compare the predictions.

    python tests/versions/run.py [--only LIBRARY] [--jobs N] [--python PYTHON] [--save]

For each version of the table an environment is made under `.versions/`, and used again until its
requirements change. In it the library's generator trains models and saves them with the library's
own predictions; here `check.py` converts the models and compares. --save keeps the results for the
docs. Exits with 1 if a model differs, or if a version could not be installed or run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".versions"
sys.path.append(str(HERE.parent.parent))  # last: some files here have the names of libraries

from tests.versions import tested  # noqa: E402


def xgboost(version: str) -> tuple[str, str]:
    """Return both names of xgboost: that without code for GPUs has no wheel for macOS."""
    return (
        f"xgboost-cpu=={version}; sys_platform != 'darwin'",
        f"xgboost=={version}; sys_platform == 'darwin'",
    )


# Wheels of their time do not work with the NumPy, SciPy and scikit-learn of today. That of
# scikit-learn does with NumPy 2, and needs it here: it takes the logarithms of its initial scores
# when it predicts, and those of NumPy 1 have other last bits.
VERSIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "sklearn": {
        "1.5.2": ("scikit-learn==1.5.2", "skops==0.11.0", "scipy<1.17"),
        "1.7.2": ("scikit-learn==1.7.2", "skops==0.13.0", "scipy<1.17"),
        "1.9.1": ("scikit-learn==1.9.1", "skops==0.16.0"),
    },
    "xgboost": {
        "1.7.6": ("xgboost==1.7.6", "scikit-learn==1.5.2", "numpy<2", "scipy<1.14"),
        "2.1.4": (*xgboost("2.1.4"), "scikit-learn==1.5.2", "numpy<2", "scipy<1.14"),
        "3.2.0": (*xgboost("3.2.0"), "scikit-learn==1.7.2", "scipy<1.17"),
        "3.3.0": (*xgboost("3.3.0"), "scikit-learn==1.9.1"),
        "3.4.1": (*xgboost("3.4.1"), "scikit-learn==1.9.1"),
    },
    "lightgbm": {
        "3.3.5": ("lightgbm==3.3.5", "scikit-learn==1.5.2", "numpy<2", "scipy<1.14"),
        "4.3.0": ("lightgbm==4.3.0", "numpy<2", "scipy<1.14"),
        "4.7.0": ("lightgbm==4.7.0",),
    },
    "catboost": {
        "1.2": ("catboost==1.2", "numpy<2", "scipy<1.14", "pandas<2.3"),
        "1.2.5": ("catboost==1.2.5", "numpy<2", "scipy<1.14", "pandas<2.3"),
        "1.2.10": ("catboost==1.2.10",),
    },
    "treelite": {
        "4.0.0": ("treelite==4.0.0", "scikit-learn==1.5.2", "numpy<2", "scipy<1.14"),
        "4.4.1": ("treelite==4.4.1", "scikit-learn==1.5.2", "scipy<1.14"),
        "4.8.1": ("treelite==4.8.1", "scikit-learn==1.9.1"),
    },
    "ydf": {
        "0.10.0": ("ydf==0.10.0",),
        "0.13.0": ("ydf==0.13.0", "pandas"),
        "0.16.1": ("ydf==0.16.1",),
    },
    "onnx": {
        "1.17.0": (
            *("onnx==1.17.0", "onnxruntime==1.20.1", "skl2onnx==1.20.0"),
            *("scikit-learn==1.5.2", "numpy<2", "scipy<1.14"),
        ),
        "1.20.1": (
            *("onnx==1.20.1", "onnxruntime==1.24.4", "skl2onnx==1.20.0"),
            *("scikit-learn==1.7.2", "scipy<1.17"),
        ),
        "1.23.2": (
            *("onnx==1.23.2", "onnxruntime==1.31.1", "skl2onnx==1.20.0"),
            "scikit-learn==1.9.1",
        ),
    },
}
"""By library, which is the name of its generator, the oldest, some in between and the newest
version that bitvec supports, and what is installed for each."""


NEWER_PYTHON = {("xgboost", "3.3.0"), ("xgboost", "3.4.1")}
"""Versions that ask for Python 3.12, though their wheels run on 3.11."""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one version.

    Parameters
    ----------
    n_models : int
    differing : tuple of str
        The models that differ, and how.
    largest : float
        Units in the last place between two predictions, of all models.
    trouble : str
        Why it could not be installed or run.
    """

    library: str
    version: str
    n_models: int = 0
    differing: tuple[str, ...] = ()
    largest: float = 0.0
    trouble: str = ""

    @property
    def passed(self) -> bool:
        """Whether models were compared and none differs."""
        return self.n_models > 0 and not self.differing


def run(*command: str | Path) -> str:
    """Run a command and return what it printed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"code {done.returncode}"]
        raise RuntimeError(lines[-1])
    return done.stdout


def environment(
    folder: Path, requirements: tuple[str, ...], python: str, *, any_python: bool = False
) -> Path:
    """Return the interpreter of an environment, made unless it is there."""
    interpreter = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    wanted = "\n".join((python, *requirements))
    finished = folder / "requirements.txt"  # written last
    if not finished.is_file() or finished.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        run(python, "-m", "venv", folder)
        pip = (interpreter, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        others = ["--ignore-requires-python"] if any_python else []
        run(*pip, "--only-binary", ":all:", *others, *requirements)
        finished.write_text(wanted)
    return interpreter


def measured(library: str, version: str, *, python: str) -> Result:
    """Train with one version, convert and compare."""
    folder = CACHE / f"{library}-{version}"
    models = folder / "models"
    try:
        interpreter = environment(
            folder,
            VERSIONS[library][version],
            python,
            any_python=(library, version) in NEWER_PYTHON,
        )
        shutil.rmtree(models, ignore_errors=True)
        run(interpreter, HERE / f"{library}.py", models)
        checked = json.loads(run(sys.executable, HERE / "check.py", "--json", models))
    except (RuntimeError, OSError) as error:
        return Result(library, version, trouble=str(error))
    return Result(
        library,
        version,
        len(checked),
        tuple(described(row) for row in checked if not row["equal"]),
        max((row["predict"] or 0.0 for row in checked), default=0.0),
    )


def described(row: dict[str, Any]) -> str:
    """Return one line on a model that differs."""
    how = row["refusal"] or (
        f"raw scores differ by {row['raw']} ulp, predictions by {row['predict']} ulp or "
        f"{row['n_labels']} labels"
    )
    return f"{row['model']}: {how} ({', '.join(row['options'])})"


def main(arguments: list[str]) -> int:
    """Compare the chosen versions, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=VERSIONS, action="append", help="this library")
    parser.add_argument("--jobs", type=int, default=2, help="versions at a time, 2 by default")
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="of the environments, by default that of this one; the oldest versions have wheels "
        "for Python 3.11 and 3.12 only",
    )
    parser.add_argument("--save", action="store_true", help="keep the results for the docs")
    options = parser.parse_args(arguments)
    chosen = [(name, version) for name in options.only or VERSIONS for version in VERSIONS[name]]
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(
            partial(measured, python=options.python), *zip(*chosen, strict=True)
        ):
            results.append(result)
            if options.save and not result.trouble:
                tested.keep("models", [asdict(result)], "library", "version")
            told = result.trouble or f"{result.n_models} models"
            print(f"{result.library} {result.version}: {told}", flush=True)
            for line in result.differing:
                print(f"  {line}", flush=True)
    show(results)
    return int(not all(result.passed for result in results))


def show(results: list[Result]) -> None:
    """Print the table."""
    form = "{:<10}{:<9}{:>7}{:>8}{:>22}"
    print("\n" + form.format("library", "version", "models", "differ", "largest difference"))
    for result in results:
        measured = (result.n_models, len(result.differing), f"{result.largest:g} ulp")
        shown = ("-", "-", "not run") if result.trouble else measured
        print(form.format(result.library, result.version, *shown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
