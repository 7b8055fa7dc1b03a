"""Laws of files of strangers: another process opens them, and what they do to it is a sentence."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import bitvec
from bitvec import api, certification, errors
from bitvec.cli.program import program
from bitvec.converters import dispatch
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InputError
from bitvec.verify import child_environment, messages, workers
from bitvec.verify.oracle import Oracle
from bitvec.verify.workers import Worker

X, y = load_iris(return_X_y=True)
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and limits are those of POSIX")


# ---- model files of every library ----------------------------------------------------------------


def _lightgbm(path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 4, "objective": "multiclass"}
    model = lightgbm.train({**options, "num_class": 3}, lightgbm.Dataset(X, y), 2)
    path.write_text(model.model_to_string())


def _xgboost(path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, y)
    path.write_bytes(model.get_booster().save_raw("json"))


def _catboost(path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    options = {"iterations": 3, "grow_policy": "Lossguide", "max_leaves": 5, "verbose": 0}
    model = catboost.CatBoostClassifier(**options, allow_writing_files=False, thread_count=1)
    model.fit(X, np.array(["one", "two", "three"])[y]).save_model(str(path), format="cbm")


def _treelite(path: Path) -> None:
    treelite = pytest.importorskip("treelite")
    model = RandomForestClassifier(2, max_depth=3, random_state=0).fit(X, y)
    treelite.sklearn.import_model(model).serialize(path)


def _skops(path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    labels = np.array(["one", "two", "three"])[y]
    skops.dump(RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, labels), path)


def _skl2onnx(path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y)
    made = skl2onnx.to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False})
    path.write_bytes(made.SerializeToString())


def _exported(path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y)
    bitvec.export(bitvec.convert(model), path.with_suffix(".onnx"), leaves=True)
    path.with_suffix(".onnx").rename(path)


def _ydf(path: Path) -> None:
    ydf = pytest.importorskip("ydf")
    table = {"a": X[:, 0], "b": X[:, 1], "label": np.array(["one", "two", "three"])[y]}
    grower = ydf.GradientBoostedTreesLearner(label="label", num_trees=2, max_depth=3)
    grower.train(table, verbose=0).save(str(path))


FILES = {
    "LightGBM": _lightgbm,
    "xgboost": _xgboost,
    "CatBoost": _catboost,
    "treelite": _treelite,
    "skops": _skops,
    "ONNX": _skl2onnx,
    "exported ONNX": _exported,
    "YDF": _ydf,
}


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal bit for bit, in class and dtype too."""
    if isinstance(a, np.ndarray):
        equal = isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        return bool(equal and (a.tolist() == b.tolist() or a.tobytes() == b.tobytes()))
    if type(a).__name__ in messages.CLASSES and not isinstance(a, str):
        named = messages.names(type(a))
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in named)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(one, two) for one, two in zip(a, b, strict=True))
    return type(a) is type(b) and repr(a) == repr(b)


@pytest.mark.parametrize("save", FILES.values(), ids=FILES)
def test_answers_over_the_pipe_are_those_of_this_process(save: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(path)
    here, there = dispatch.loaded_oracle(path), certification.oracle_of(path)
    dtype = api.convert(path).dtype
    rows = np.repeat(X, 30, axis=0)[:, : here.n_features].astype(dtype)  # several blocks
    rows[::7, 1] = np.nan
    for field in fields(Oracle):
        mine, others = getattr(here, field.name), getattr(there, field.name)
        if not callable(mine):
            assert same(mine, others), field.name
        elif field.name in ("leaf_values", "trees", "written"):
            assert same(mine(), others()), field.name
        else:
            for part in (rows, rows[:1]):
                assert same(mine(part), others(part)), field.name
            shared = mine == here.raw
            assert (others is there.raw) == shared, field.name
    with pytest.raises(ValueError, match=r"features|shape|index|one row") as caught:
        there.raw(rows[:2, :1])
    assert "\n" not in str(caught.value)


def test_what_a_library_does_not_need_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"a model")
    worker = Worker(tmp_path / "model", "a library", ["wave"])
    with pytest.raises(FileFormatError, match="No module named 'wave'"):
        evaluate(worker, "__import__('wave')")
    assert evaluate(worker, "__import__('colorsys').__name__") == "colorsys"
    files = (source for source in dispatch.FORMATS if source.recognises is not None)
    assert {source.name: source.unneeded for source in files if source.unneeded} == {
        "LightGBM": ("pandas", "sklearn"),
        "scikit-learn composition file": ("torch",),
        "scikit-learn file": ("torch",),
        "scikit-learn pipeline file": ("torch",),
        "xgboost": ("sklearn",),
    }


def test_a_binary_catboost_file_converts_as_its_model_does(tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    _catboost(tmp_path / "m.cbm")
    model = catboost.CatBoost().load_model(str(tmp_path / "m.cbm"))
    ours, theirs = bitvec.convert(tmp_path / "m.cbm"), bitvec.convert(model)
    assert bitvec.files.identical(ours, theirs)
    assert bitvec.certify(ours, tmp_path / "m.cbm", engine="reference").passed


# ---- what runs, and with what --------------------------------------------------------------------

PARENT = """
import sys
import numpy
import bitvec
from bitvec.api import convert
from pathlib import Path
for name in ("catboost", "lightgbm", "numpy", "sitecustomize", "usercustomize", "json", "bitvec"):
    Path(name + ".py").write_text("open('ran', 'a').write(__name__)")
print(convert("model").n_trees)
"""


@pytest.mark.parametrize(
    "start",
    ["-c", "-m", *(pytest.param(name, marks=pytest.mark.full) for name in ("script", "stdin"))],
)
def test_modules_in_the_current_folder_do_not_run(start: str, tmp_path: Path) -> None:
    _catboost(tmp_path / "model")
    arguments = {"-c": ["-c", PARENT], "-m": ["-m", "main"], "script": ["main.py"], "stdin": ["-"]}
    if start in ("-m", "script"):
        (tmp_path / "main.py").write_text(PARENT)
    place = {**os.environ, "PYTHONPATH": str(Path(bitvec.__path__[0]).parent)}
    done = subprocess.run(
        [sys.executable, *arguments[start]],
        cwd=tmp_path,
        env=place,
        input=PARENT if start == "stdin" else "",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert (tmp_path / "catboost.py").exists()
    assert not (tmp_path / "ran").exists()


def test_the_current_folder_is_on_the_path_only_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = str(tmp_path.parent)
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", str(tmp_path), str(tmp_path / "link"), other])
    for value in ("", ".", os.pathsep, "lib"):
        monkeypatch.setenv("PYTHONPATH", value)
        assert child_environment.import_path() == [other]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["x", str(tmp_path)]))
    assert child_environment.import_path() == [str(tmp_path), str(tmp_path / "link"), other]


def test_the_environment_of_a_child_is_on_a_list() -> None:
    kept = {
        "HOME": "/home/a",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "TMPDIR": "/var/tmp",
        "CONDA_PREFIX": "/opt/conda",
        "CONDA_DLL_SEARCH_MODIFICATION_ENABLE": "1",
        "SystemRoot": r"C:\Windows",
        "APPDATA": r"C:\Users\a",
        "NUMBA_CACHE_DIR": "/var/cache/numba",
        "OMP_NUM_THREADS": "3",
        "LD_LIBRARY_PATH": "/opt/lib",
    }
    dropped = {
        "PYTHONPATH": "/x",
        "PYTHONSTARTUP": "/x",
        "PYTHONHOME": "/x",
        "PYTHONINSPECT": "1",
        "DYLD_LIBRARY_PATH": "lib",
        "LD_AUDIT": "/x",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "BITVEC_CHILD_GIB": "1",
    }
    given = {**kept, **dropped, "PATH": os.pathsep.join(["/usr/bin", "", ".", "bin", "/bin"])}
    expected = {
        **kept,
        "PATH": os.pathsep.join(["/usr/bin", "/bin"]),
        "OPENBLAS_NUM_THREADS": "1",
    }
    assert child_environment.kept(given) == expected
    assert "OMP_NUM_THREADS" in child_environment.kept({})


def test_one_place_starts_python() -> None:
    root = Path(bitvec.__path__[0])
    starts = [
        path.relative_to(root).as_posix()
        for folder in (root, *map(Path, _folders()))
        for path in folder.rglob("*.py")
        if "subprocess" in path.read_text() or "multiprocessing" in path.read_text()
        if path.is_relative_to(root)
    ]
    assert set(starts) <= {
        "verify/workers.py",
        "compression/model_costs.py",  # a C compiler
        "runtime/export/c/compiled.py",
        "runtime/export/web/wasm.py",  # node
        "runtime/predict/torch/engine.py",
        "services/process_copies.py",  # a pool of processes that predict
    }
    for compiles in ("runtime/export/c/compiled.py", "compression/model_costs.py"):
        assert "sys.executable" not in (root / compiles).read_text()


def _folders() -> Iterator[str]:
    for name in ("converters", "runtime", "learners"):
        yield from import_module(f"bitvec.{name}").__path__


# ---- limits, crashes and ends --------------------------------------------------------------------


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    path = tmp_path / "model.bin"
    path.write_bytes(b"a model")
    return Worker(path, "a library")


def evaluate(worker: Worker, text: str) -> Any:
    return worker.call("builtins", "eval", text)


def gone(pid: int) -> bool:
    """Whether a process ends within seconds, and is no zombie of ours."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z"):
                with pytest.raises(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_what_a_library_prints_is_no_answer(worker: Worker) -> None:
    assert evaluate(worker, "__import__('os').write(1, b'noise')") == 5
    assert evaluate(worker, "__import__('os').system('echo noise; cat')") == 0
    assert evaluate(worker, "print('noise' * 10**6)") is None
    assert evaluate(worker, "[1, 2]") == [1, 2]


@POSIX
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("__import__('ctypes').string_at(0)", r"a crash of its process \(SIGSEGV\)"),
        ("__import__('os').abort()", r"a crash of its process \(SIGABRT"),
        ("__import__('os')._exit(3)", r"a crash of its process \(exit status 3\)"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", r"\(SIGKILL\)"),
        ("bytearray(1 << 44)", r"more memory than .* GiB.*BITVEC_CHILD_GIB"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("__import__('bitvec').workers.os.write(1, b'std::bad_alloc') and ''.no", "AttributeError"),
    ],
)
def test_each_end_is_one_sentence_that_names_the_file(worker: Worker, text: str, says: str) -> None:
    with pytest.raises(FileFormatError, match=says) as caught:
        evaluate(worker, text)
    said = str(caught.value)
    assert said.startswith(f"{worker.path} must be a file that a library can open")
    assert "\n" not in said
    assert said.endswith(".")
    if "crash" in said:
        assert gone(worker.pid)
        with pytest.raises(FileFormatError, match="crash"):  # and stays
            evaluate(worker, "1")


@POSIX
@pytest.mark.parametrize("sleeps", ["time.sleep(600)", "ctypes.PyDLL(None).sleep(600)"])
def test_time_is_limited_whether_or_not_a_library_holds_the_interpreter(
    worker: Worker, sleeps: str
) -> None:
    module, rest = sleeps.split(".", 1)
    assert evaluate(worker, "0") == 0  # it has started
    worker.seconds = 0.5
    begun = time.monotonic()
    with pytest.raises(FileFormatError, match=r"no answer within 0\.5 sec.*BITVEC_CHILD_SECONDS"):
        evaluate(worker, f"__import__('{module}').{rest}")
    assert time.monotonic() - begun < 10
    assert gone(worker.pid)


@POSIX
def test_memory_is_limited_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").write_bytes(b"m")
    monkeypatch.setenv("BITVEC_CHILD_GIB", "1")
    worker = Worker(tmp_path / "m", "a library")
    # What is allocated in C++ ends the process where it is not caught.
    with pytest.raises(FileFormatError, match=r"more memory than 1 GiB|a crash of its process"):
        evaluate(worker, "len(__import__('numpy').ones(3 << 27))")
    for wrong in ("none", "0", "-1", "nan", "inf"):
        monkeypatch.setenv("BITVEC_CHILD_GIB", wrong)
        with pytest.raises(InputError, match="BITVEC_CHILD_GIB must be a number above 0"):
            Worker(tmp_path / "m", "a library")


def test_a_large_file_has_more_time_and_memory(tmp_path: Path) -> None:
    with (tmp_path / "m").open("wb") as file:
        file.truncate(10**8)
    worker = Worker(tmp_path / "m", "a library")
    assert worker.seconds == workers.SECONDS + 100
    assert worker.gib == pytest.approx(workers.GIB + 3.2e9 / 2**30)


def test_errors_that_are_raised_on_purpose_keep_class_and_words(worker: Worker) -> None:
    path = str(Path(worker.path).absolute())
    for name, arguments in (
        ("UnsupportedModelError", ("a sentence.",)),
        ("InputError", (f"{path} is named.",)),
        ("MissingLibraryError", ("ydf", "ydf", "asking")),
    ):
        raised = getattr(errors, name)(*arguments)
        made = f"__import__('bitvec').errors.{name}(*{arguments!r})"
        with pytest.raises(type(raised)) as caught:
            evaluate(worker, f"(_ for _ in ()).throw({made})")
        assert str(caught.value) == str(raised)
        assert vars(caught.value) == vars(raised)
    with pytest.raises(FileNotFoundError) as missing:
        evaluate(worker, "open('/no/such/file')")
    assert missing.value.filename == worker.path


def test_a_process_ends_with_what_it_answers_for(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"m")
    worker = Worker(tmp_path / "m", "a library")
    pid = worker.pid
    assert evaluate(worker, "len")([1, 2]) == 2
    del worker
    assert gone(pid)
    worker = Worker(tmp_path / "m", "a library")
    ask, pid = evaluate(worker, "len"), worker.pid
    del worker
    gc.collect()
    assert ask([1]) == 1  # a function keeps it
    del ask
    assert gone(pid)


@POSIX
def test_an_interruption_leaves_no_process(worker: Worker) -> None:
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("a shell has what it runs in the background ignore interruptions")
    evaluate(worker, "0")
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(1, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (also where the call begins late)
        timer.start()
        evaluate(worker, "__import__('os').system('sleep 600')")
    timer.join()
    assert gone(worker.pid)
    with pytest.raises(FileFormatError, match="open it again"):
        evaluate(worker, "0")


KILLED = """
import sys, time, threading
from bitvec.verify.workers import Worker
worker = Worker(sys.argv[1], "a library")
print(worker.pid, flush=True)
worker.call("builtins", "eval", "0")
print("busy", flush=True)
worker.call("builtins", "eval", sys.argv[2])
"""


@POSIX
@pytest.mark.skipif(not hasattr(os, "O_ASYNC"), reason="no signal at the end of a pipe")
def test_a_process_ends_with_the_one_that_started_it_also_while_it_hangs(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"m")
    hang = "__import__('ctypes').PyDLL(None).sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "m"), hang],
        env={**os.environ, "PYTHONPATH": str(Path(bitvec.__path__[0]).parent)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "busy\n"
        time.sleep(0.3)
        parent.kill()
    assert gone(pid)


@POSIX
def test_a_forked_process_neither_asks_nor_ends_it(worker: Worker) -> None:
    evaluate(worker, "0")
    child = os.fork()
    if child == 0:
        try:
            evaluate(worker, "0")
        except InputError:
            worker.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert evaluate(worker, "1") == 1


# ---- files that break libraries ------------------------------------------------------------------


def _cut_parameter(path: Path) -> None:
    """A line of parameters without its end, which LightGBM reads beyond."""
    _lightgbm(path)
    text = path.read_text()
    at = text.index("[gpu_device_id")
    path.write_text(text[: at + 8] + text[text.index("]\n", at) + 1 :])


def _far_parent(path: Path) -> None:
    """A node whose parent is far beyond its tree, where xgboost goes and looks."""
    _xgboost(path)
    document = json.loads(path.read_text())
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    trees[0]["parents"][1] = 2**30
    path.write_text(json.dumps(document))


BREAKING: dict[str, Callable[[Path], None]] = {
    "LightGBM": _cut_parameter,
    "xgboost": _far_parent,
}


def _endless(path: Path) -> None:
    """A name of a parameter with a zero byte in it, which LightGBM never gets past."""
    _lightgbm(path)
    path.write_bytes(path.read_bytes().replace(b"[lambda_l2", b"[lamb\0a_l2"))


@POSIX
@pytest.mark.parametrize("library", BREAKING)
def test_a_file_that_breaks_its_library_is_one_sentence(library: str, tmp_path: Path) -> None:
    path = tmp_path / "model.file"
    BREAKING[library](path)
    forest = bitvec.convert(path)  # its own fields are read by bitvec, and are sound
    assert isinstance(forest, Forest)
    with pytest.raises(FileFormatError, match=rf"{library} can open .*(SIGSEGV|Error)") as caught:
        bitvec.certify(forest, path)
    assert str(caught.value).startswith(str(path))
    target = tmp_path / "out.safetensors"
    done = CliRunner().invoke(program, ["convert", str(path), "-o", str(target), "--certify"])
    assert done.exit_code == 2
    assert f"{library} can open" in done.output
    assert "Traceback" not in done.output
    assert not target.exists()


@POSIX
def test_a_file_that_its_library_never_finishes_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.file"
    _endless(path)
    forest = bitvec.convert(path)
    monkeypatch.setenv("BITVEC_CHILD_SECONDS", "6")
    with pytest.raises(
        FileFormatError, match=r"LightGBM can open .*no answer within 6\.\d+ seconds"
    ):
        bitvec.certify(forest, path)
