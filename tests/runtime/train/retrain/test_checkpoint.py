"""A training that is killed goes on and ends with the same forest, bit for bit."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from retraining import grown, oblique_classes, retrain  # noqa: E402

from bitvec import files  # noqa: E402
from bitvec.errors import FileFormatError, InputError  # noqa: E402
from bitvec.runtime.train.retrain import checkpoint  # noqa: E402

RUN = {"steps": 40, "batch_size": 64, "evaluations": 4}


class Stop(Exception):
    """Ends a training from its progress callback."""


def problem():
    X, y = oblique_classes(n=480)
    forest = grown(X[:300], y[:300], classes=np.array(["no", "yes"]))
    return forest, X[:300], y[:300], (X[300:], y[300:])


def stop_at(step):
    def told(evaluation):
        if evaluation.stage == "soft" and evaluation.step == step:
            raise Stop

    return told


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "sgd"}, {"l1": 0.01}, {"trainable": ("b", "v")}, {"patience": 2}]
)
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(tmp_path, options):
    forest, X, y, held_out = problem()
    whole = retrain(forest, X, y, validation=held_out, **RUN, **options)
    path = tmp_path / "run.safetensors"
    seen = []
    # Two interruptions: the evaluation at step 30 is told before its state is written.
    for step in (20, 30):
        with pytest.raises(Stop):
            retrain(
                forest, X, y, validation=held_out, checkpoint_path=path, progress=stop_at(step),
                **RUN, **options,
            )  # fmt: skip
    again = retrain(
        forest, X, y, validation=held_out, checkpoint_path=path, progress=seen.append,
        **RUN, **options,
    )  # fmt: skip
    assert files.identical(again.forest, whole.forest)
    assert again.score == whole.score
    assert [each.step for each in again.history] == [each.step for each in whole.history]
    assert seen[0].step == 30  # what came before was not done again


def test_a_run_that_is_done_is_not_done_again(tmp_path):
    forest, X, y, held_out = problem()
    path = tmp_path / "run.safetensors"
    first = retrain(forest, X, y, validation=held_out, checkpoint_path=path, **RUN)
    seen = []
    second = retrain(
        forest, X, y, validation=held_out, checkpoint_path=path, progress=seen.append, **RUN
    )
    assert files.identical(first.forest, second.forest)
    assert seen == []


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    forest, X, y, held_out = problem()
    path = tmp_path / "run.safetensors"
    retrain(forest, X, y, validation=held_out, checkpoint_path=path, **RUN)
    others = [
        (forest, X, {**RUN, "steps": 41}),
        (forest, X, {**RUN, "seed": 1}),
        (forest, X, {**RUN, "errors": 0.5}),
        (forest, X + 1, RUN),
        (replace(forest, leaves=replace(forest.leaves, v=forest.leaves.v[::-1].copy())), X, RUN),
    ]
    for other, rows, run in others:
        with pytest.raises(InputError, match="must be the checkpoint of this very training"):
            retrain(other, rows, y, validation=held_out, checkpoint_path=path, **run)


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path, keep):
    forest, X, y, held_out = problem()
    path = tmp_path / "run.safetensors"
    retrain(forest, X, y, validation=held_out, checkpoint_path=path, **RUN)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="must hold a checkpoint of bitvec"):
        retrain(forest, X, y, validation=held_out, checkpoint_path=path, **RUN)


SCRIPT = """
    import sys
    import numpy as np
    from bitvec import files
    from bitvec import retrain

    rows = np.load(sys.argv[1] + "/rows.npz")
    retrain(
        files.load(sys.argv[1] + "/start.safetensors"), rows["X"], rows["y"],
        validation=(rows["X_held"], rows["y_held"]), budget=None,
        schedule={"steps": 40_000, "batch_size": 64, "evaluations": 4_000},
        checkpoint_path=sys.argv[1] + "/run.safetensors",
        progress=lambda each: print(each.step, flush=True),
    )
"""


@pytest.mark.full
@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_process_leaves_a_whole_checkpoint(tmp_path):
    forest, X, y, (X_held, y_held) = problem()
    files.save(forest, tmp_path / "start.safetensors")
    np.savez(tmp_path / "rows.npz", X=X, y=y, X_held=X_held, y_held=y_held)
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)]
    for _ in range(2):  # the second process goes on from the first one's checkpoint
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            steps = [int(process.stdout.readline()) for _ in range(12)]
            process.send_signal(signal.SIGKILL)
        last = steps[-1]
    assert steps[0] > 0
    assert last >= 200  # 2 x about 11 evaluations of 10 steps, of which one may have been lost
    assert [path.name for path in tmp_path.glob("*run*")] == ["run.safetensors"]


def my_loss(raw, target):
    return torch.nn.functional.cross_entropy(raw, target, reduction="none")


def other_loss(raw, target):
    return 2 * torch.nn.functional.cross_entropy(raw, target, reduction="none").square()


@dataclass
class Scaled:
    factor: float

    def __call__(self, step):
        return self.factor * step


PAIRS = {
    "functions": (my_loss, other_loss),
    "partial arguments": (
        functools.partial(other_loss, target=1.0),
        functools.partial(other_loss, target=2.0),
    ),
    "fields of callables": (Scaled(1.0), Scaled(2.0)),
    "functions of torch": (torch.nn.functional.mse_loss, torch.nn.functional.l1_loss),
    "classes": (torch.nn.Linear, torch.nn.ReLU),
    "numbers": ({"gamma": (1.0, 8.0)}, {"gamma": (1.0, 9.0)}),
    "arrays": (np.arange(3.0), np.arange(4.0)),
    # Where the text of a long array is cut.
    "long arrays": (np.zeros(3000, bool), np.arange(3000) == 1500),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_digest_is_that_of_options(name):
    forest, X, _, _ = problem()
    one, other = (checkpoint.digest(forest, [X], {"value": value}) for value in PAIRS[name])
    assert one != other
    assert one == checkpoint.digest(forest, [X], {"value": PAIRS[name][0]})


@pytest.mark.full
def test_every_process_tells_the_same():
    code = (
        "import json, functools, torch\n"
        "from bitvec.runtime.train.retrain.checkpoint import described\n"
        "def loss(raw, target, names={'a', 'b', 'c'}): return raw in {'x', 'y', 'z'}\n"
        "print(json.dumps(described([functools.partial(loss, q={'u', 'v', 'w'}), torch.float32,"
        " torch.optim.AdamW, torch.nn.functional.mse_loss, None, object()])))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_run_that_lost_its_patience_is_not_taken_up_again(tmp_path):
    forest, X, y, held_out = problem()
    run = {
        "steps": 200, "batch_size": 64, "evaluations": 20, "patience": 2, "trainable": ("b",),
        "learning_rate": 1e-4,
    }  # fmt: skip
    path = tmp_path / "run.safetensors"
    whole = retrain(forest, X, y, validation=held_out, **run)
    first, second = (
        retrain(forest, X, y, validation=held_out, checkpoint_path=path, **run) for _ in range(2)
    )
    assert whole.history[-1].step < 200
    for again in (first, second):
        assert [each.step for each in again.history] == [each.step for each in whole.history]
        assert again.note == whole.note
        assert files.identical(again.forest, whole.forest)


def test_a_place_where_no_checkpoint_can_be_is_refused_at_once(tmp_path):
    forest, X, y, held_out = problem()
    for place in (tmp_path / "nowhere" / "run.safetensors", tmp_path):
        with pytest.raises(InputError, match="checkpoint_path"):
            retrain(forest, X, y, validation=held_out, checkpoint_path=place, **RUN)
