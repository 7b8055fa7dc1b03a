"""Rows come in the same batches each time, from arrays and from loaders."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from retraining import grown, oblique_classes, retrain  # noqa: E402

from bitvec import files  # noqa: E402
from bitvec.errors import InputError  # noqa: E402

RUN = {"steps": 60, "batch_size": 64, "evaluations": 3}
CLASSES = np.array(["no", "yes"])


def problem(n=500):
    X, y = oblique_classes(n=n)
    forest = grown(X[:300], y[:300], classes=CLASSES)
    return forest, X[:300], y[:300], (X[300:], y[300:])


class Stop(Exception):
    """Ends a training from its progress callback."""


def loader(X, y, **options):
    codes = np.searchsorted(CLASSES, y)
    rows = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(codes))

    def collate(items):
        X, codes = torch.utils.data.default_collate(items)
        return X, CLASSES[codes.numpy()]

    return torch.utils.data.DataLoader(rows, batch_size=50, collate_fn=collate, **options)


def test_a_list_of_batches_trains():
    forest, X, y, held_out = problem()
    parts = [(X[at : at + 50], y[at : at + 50]) for at in range(0, 300, 50)]
    result = retrain(forest, parts, validation=held_out, **RUN)
    assert result.improved
    assert result.score > result.start_score


def test_weights_of_a_loader_count():
    forest, X, y, held_out = problem()
    nothing = [(X, y[::-1], np.zeros(300)), (X, y, np.ones(300))]
    alone = [(X, y, np.ones(300))] * 2
    # Rows of weight 0 have no gradient and are in no count, so every second step stands still.
    first = retrain(forest, nothing, validation=held_out, optimizer="sgd", weight_decay=0.0, **RUN)
    assert first.improved
    assert retrain(forest, alone, validation=held_out, **RUN).improved


def test_a_data_loader_that_shuffles_gives_the_same_result_each_time():
    forest, X, y, held_out = problem()
    rows = loader(X, y, shuffle=True)
    first = retrain(forest, rows, validation=held_out, **RUN)
    torch.rand(3)  # the global generator is somewhere else
    second = retrain(forest, rows, validation=held_out, **RUN)
    assert first.improved
    assert files.identical(first.forest, second.forest)
    assert rows.generator is None


def test_a_data_loader_that_draws_whole_batches_gives_the_same_result_each_time():
    forest, X, y, held_out = problem()
    data = loader(X, y)
    drawn = torch.utils.data.RandomSampler(data.dataset)
    batches = torch.utils.data.BatchSampler(drawn, 50, drop_last=False)
    rows = torch.utils.data.DataLoader(
        data.dataset, batch_sampler=batches, collate_fn=data.collate_fn
    )
    first = retrain(forest, rows, validation=held_out, **RUN)
    torch.rand(3)
    second = retrain(forest, rows, validation=held_out, **RUN)
    assert first.improved
    assert files.identical(first.forest, second.forest)
    assert drawn.generator is None


def test_a_data_loader_goes_on_after_an_interruption(tmp_path):
    forest, X, y, held_out = problem()
    rows = loader(X, y, shuffle=True)
    whole = retrain(forest, rows, validation=held_out, **RUN)

    def stop(evaluation):
        if evaluation.step == 40:
            raise Stop

    path = tmp_path / "run.safetensors"
    with pytest.raises(Stop):
        retrain(forest, rows, validation=held_out, checkpoint_path=path, progress=stop, **RUN)
    again = retrain(forest, rows, validation=held_out, checkpoint_path=path, **RUN)
    assert files.identical(again.forest, whole.forest)


def test_leaves_alone_train_from_a_loader():
    forest, X, y, held_out = problem()
    parts = [(X[at : at + 50], y[at : at + 50]) for at in range(0, 300, 50)]
    result = retrain(forest, parts, trainable=("v",), validation=held_out, **RUN)
    assert result.score >= result.start_score
    assert np.array_equal(result.forest.tests.b, forest.tests.b)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "must yield at least one row"),
        (iter([]), {}, "must start anew"),
        ([np.zeros((3, 3))], {}, r"must yield \(X, y\)"),
        ([(np.zeros((3, 2)), np.array(["no"] * 3))], {}, "must have 3 features"),
        ([(np.zeros((3, 3)), np.array(["so"] * 3))], {}, "must hold the forest's classes"),
        ([(np.zeros((3, 3)), np.array(["no"] * 3))], {"validation": 0.2}, "must be .X, y. where"),
        ([(np.zeros((3, 3)), np.array(["no"] * 3))], {"sample_weight": [1]}, "must be left out"),
    ],
)
def test_bad_loaders_are_refused_in_one_sentence(rows, options, message):
    forest, _, _, held_out = problem()
    with pytest.raises(InputError, match=message):
        retrain(forest, rows, **{"validation": held_out, **RUN, **options})


@pytest.mark.parametrize("size", [70, 700])
def test_each_epoch_holds_every_row_once(size):
    from bitvec.runtime.train.retrain.batches import ArrayBatches

    forest, X, y, _ = problem()
    seen = []

    class Recorder(ArrayBatches):
        def _places(self, start, count):
            places = super()._places(start, count)
            seen.append(places)
            return places

    from bitvec.runtime.train.relax import SoftForest
    from bitvec.runtime.train.retrain.processes import Workers
    from bitvec.runtime.train.retrain.recipe import Recipe
    from bitvec.runtime.train.retrain.training_data import read

    recipe = Recipe(
        "sigmoid", 10, size, "adamw", 0.1, 0.0, float, float, 1, None, 3, torch.device("cpu"), None
    )
    data = read(forest, X, y, None)
    batches = Recorder(data, recipe, Workers())
    batches.start(SoftForest.from_forest(forest))
    steps = batches.steps(0)
    for _ in range(13):
        next(steps)
    order = torch.cat(seen)
    for epoch in range(3):
        part = order[epoch * 300 : (epoch + 1) * 300]
        assert sorted(part.tolist()) == list(range(300))
    assert not torch.equal(order[:300], order[600:900])
    # Starting at a later step yields the same rows.
    seen.clear()
    next(batches.steps(5))
    assert torch.equal(seen[0], order[5 * size : 6 * size])
