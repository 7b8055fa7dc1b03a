"""YDF: leaf values of its boosted trees, fine-tuned in JAX and put back into the model.

    python -m benchmarks.retrain.workers.of_ydf FOLDER

Adam by optax at a few rates; the rows held out choose the rate and the epoch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import optax
import ydf

from benchmarks.old_jobs import Array, write_answers
from benchmarks.old_worker import serve
from benchmarks.retrain.workers.job import Job, read

RATES: Final = (1e-2, 1e-3, 1e-4)
EPOCHS: Final = 10
BATCH: Final = 256


def columns(X: Array) -> dict[str, Array]:
    """Return the columns as the library names them."""
    return {f"f{number}": X[:, number].astype(np.float32) for number in range(X.shape[1])}


def trained(job: Job) -> Any:
    """Return the source model; the rows held out stop its growth."""
    task = ydf.Task.CLASSIFICATION if job.is_classifier else ydf.Task.REGRESSION
    learner = ydf.GradientBoostedTreesLearner(
        label="y", task=task, num_trees=job.trees, random_seed=job.seed, num_threads=1
    )
    fit, held_out = (columns(X) | {"y": y} for X, y in (job.fit, job.held_out))
    return learner.train(fit, valid=held_out, verbose=0)


def answers(job: Job, model: Any, X: Array) -> Array:
    """Return labels, or a regressor's numbers, as the library itself predicts them."""
    predicted = np.asarray(model.predict(columns(X)))
    if not job.is_classifier:
        return predicted
    if predicted.ndim == 1:
        place = (predicted > 0.5).astype(int)
    else:
        place = predicted.argmax(axis=1)
    return np.array(model.label_classes()).astype(int)[place]


def loss_of(job: Job, model: Any, predict: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loss of parameters on rows and targets."""
    one_score = job.is_classifier and len(model.label_classes()) == 2

    def loss(params: Any, rows: Any, target: Any) -> Any:
        raw = predict(rows, params)
        if not job.is_classifier:
            return jnp.mean(jnp.square(raw.reshape(-1) - target))
        if one_score:
            return jnp.mean(optax.sigmoid_binary_cross_entropy(raw.reshape(-1), target))
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(raw, target))

    return loss


def main() -> dict[str, Any]:
    """Run the job of a folder; return what is to be told of it."""
    job = read(Path(sys.argv[1]))
    model = trained(job)
    model.save(str(job.model))
    predicted = {"start": answers(job, model, job.test)}
    best = job.score(answers(job, model, job.held_out[0]))
    told: dict[str, Any] = {"start": {"held_out": best}}
    chosen: tuple[float, Any, dict[str, Any]] = best, None, {}
    X, y = job.fit
    rows = {name: jnp.asarray(values) for name, values in columns(X).items()}
    target = jnp.asarray(y)
    if job.is_classifier:
        # The library numbers classes by how often they occur.
        place = {int(name): number for number, name in enumerate(model.label_classes())}
        target = jnp.asarray([place[int(label)] for label in y])
    tuned = model.to_jax_function(leaves_as_params=True, apply_activation=False, jit=False)
    loss = loss_of(job, model, tuned.predict)
    start = time.process_time()
    for rate in RATES:
        optimizer = optax.adam(rate)

        @jax.jit
        def step(params: Any, state: Any, index: Any, optimizer: Any = optimizer) -> Any:
            batch = {name: values[index] for name, values in rows.items()}
            gradient = jax.grad(loss)(params, batch, target[index])
            updates, state = optimizer.update(gradient, state)
            return optax.apply_updates(params, updates), state

        params, state = tuned.params, optimizer.init(tuned.params)
        drawn = np.random.default_rng(job.seed)
        for epoch in range(EPOCHS):
            order = drawn.permutation(len(X))
            for at in range(0, len(order) - BATCH + 1, BATCH):
                params, state = step(params, state, order[at : at + BATCH])
            model.update_with_jax_params(params)
            held_out = job.score(answers(job, model, job.held_out[0]))
            if held_out > chosen[0]:
                chosen = held_out, params, {"rate": rate, "epochs": epoch + 1}
    told["seconds"] = time.process_time() - start
    model.update_with_jax_params(tuned.params if chosen[1] is None else chosen[1])
    predicted["hard"] = answers(job, model, job.test)
    told["hard"] = {"held_out": chosen[0], "settings": chosen[2]}
    write_answers(job.folder, **predicted)
    return told


if __name__ == "__main__":
    serve(main)
