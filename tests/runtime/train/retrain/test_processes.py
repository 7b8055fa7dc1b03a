"""Several processes train as one does, and go on after one of them is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from retraining import grown, oblique_classes, retrain  # noqa: E402

from bitvec import files  # noqa: E402
from bitvec.runtime.train.retrain.processes import Workers  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

RUN = {"steps": 40, "batch_size": 64, "evaluations": 4}
SCRIPT = """
    import os, sys
    import numpy as np, torch
    from bitvec import files
    from bitvec import retrain

    folder = sys.argv[1]
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()

    def told(evaluation):
        # The first run of the first process dies at its second evaluation, without a word.
        if len(sys.argv) > 2 and not os.path.exists(folder + "/died") and evaluation.step == 20:
            open(folder + "/died", "w").close()
            os.kill(os.getpid(), 9)

    rows = np.load(folder + "/rows.npz")
    result = retrain(
        files.load(folder + "/start.safetensors"), rows["X"], rows["y"],
        validation=(rows["X_held"], rows["y_held"]),
        schedule={"steps": 40, "batch_size": 64, "evaluations": 4},
        checkpoint_path=folder + "/checkpoint" if len(sys.argv) > 2 else None, progress=told,
    )
    files.save(result.forest, f"{folder}/result{rank}.safetensors")
    torch.distributed.destroy_process_group()
"""


def start(folder):
    X, y = oblique_classes(n=480)
    forest = grown(X[:300], y[:300], classes=np.array(["no", "yes"]))
    files.save(forest, folder / "start.safetensors")
    np.savez(folder / "rows.npz", X=X[:300], y=y[:300], X_held=X[300:], y_held=y[300:])
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    return forest, X, y


def torchrun(folder, *arguments, restarts=0):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", "--monitor-interval=0.1"]
    done = subprocess.run(
        [*command, str(folder / "script.py"), str(folder), *arguments],
        capture_output=True, text=True, timeout=300,
        # A store that outlives the restart would hand the new processes the dead ones' addresses.
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [files.load(folder / f"result{rank}.safetensors") for rank in range(2)]


def assert_close(a, b):
    # Sums over a batch in another order, in float32, over 40 steps.
    for name in ("weight", "b"):
        assert np.allclose(getattr(a.tests, name), getattr(b.tests, name), rtol=1e-5, atol=1e-5)
    assert np.allclose(a.v, b.v, rtol=1e-5, atol=1e-5)


@pytest.mark.full
def test_two_processes_give_the_result_of_one(tmp_path):
    forest, X, y = start(tmp_path)
    alone = retrain(forest, X[:300], y[:300], validation=(X[300:], y[300:]), **RUN)
    assert alone.improved
    first, second = torchrun(tmp_path)
    assert files.identical(first, second)
    assert_close(first, alone.forest)


@pytest.mark.full
def test_a_killed_worker_goes_on_from_the_checkpoint(tmp_path):
    forest, X, y = start(tmp_path)
    first, second = torchrun(tmp_path, "die", restarts=1)
    assert (tmp_path / "died").exists()
    assert files.identical(first, second)
    alone = retrain(forest, X[:300], y[:300], validation=(X[300:], y[300:]), **RUN)
    assert_close(first, alone.forest)


DYING = """
import os


def told(folder):
    def of(evaluation):
        # The first run of the first process dies at its second evaluation, without a word.
        if evaluation.step == 20 and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), 9)

    return of
"""


@pytest.mark.full
@pytest.mark.parametrize("killed", [False, True], ids=["whole", "a worker is killed"])
def test_the_page_s_program_for_ray_train_gives_the_result_of_torchrun(tmp_path, killed):
    pytest.importorskip("ray.train.torch", exc_type=ImportError)
    root = Path(__file__).resolve().parents[4]
    page = (root / "docs" / "clusters.md").read_text(encoding="utf-8")
    [program] = re.findall(r"## Retraining.*?```python\n(.*?)```", page, re.DOTALL)
    start(tmp_path)
    (expected, _) = torchrun(tmp_path)
    (tmp_path / "start.safetensors").rename(tmp_path / "forest.safetensors")
    if killed:
        (tmp_path / "dying.py").write_text(DYING)
        program = program.replace("import bitvec\n", "import bitvec\nimport dying\n")
        program = program.replace("schedule=", "progress=dying.told(folder), schedule=")
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "died").exists() is killed
    assert files.identical(files.load(tmp_path / "retrained.safetensors"), expected)


def test_one_process_alone_shares_and_adds_nothing():
    workers = Workers()
    rows = torch.arange(5)
    assert workers.share(rows) is not None
    assert torch.equal(workers.share(rows), rows)
    gradient = torch.ones(3)
    workers.add_up([gradient])
    assert torch.equal(gradient, torch.ones(3))
    rows = np.arange(3)
    assert workers.joined(rows) is rows


def test_the_shares_of_a_batch_are_the_whole_batch():
    rows = torch.arange(7)
    shares = [Workers(rank, 3).share(rows) for rank in range(3)]
    assert sorted(torch.cat(shares).tolist()) == list(range(7))
