"""YDF: leaf values of its boosted trees, fine-tuned in JAX and put back into the model.

Adam by optax at a few rates; the rows held out choose the rate and the epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import optax
import ydf

from benchmarks.foreign.held_out import held_out_score
from benchmarks.jobs import Array, Job, read

RATES: Final = (1e-2, 1e-3, 1e-4)
EPOCHS: Final = 10
BATCH: Final = 256


def columns(X: Array) -> dict[str, Array]:
    """Return the columns as the library names them."""
    return {f"f{number}": X[:, number].astype(np.float32) for number in range(X.shape[1])}


def trained(job: Job) -> Any:
    """Return the source model; the rows held out stop its growth."""
    task = ydf.Task.CLASSIFICATION if job.facts["is_classifier"] else ydf.Task.REGRESSION
    facts, rows = job.facts, job.rows
    learner = ydf.GradientBoostedTreesLearner(
        label="y", task=task, num_trees=facts["trees"], random_seed=facts["seed"], num_threads=1
    )
    fit, held_out = (
        columns(rows[f"{part}X"]) | {"y": rows[f"{part}y"]} for part in ("", "held_out_")
    )
    return learner.train(fit, valid=held_out, verbose=0)


def answers(job: Job, model: Any, X: Array) -> Array:
    """Return labels, or a regressor's numbers, as the library itself predicts them."""
    predicted = np.asarray(model.predict(columns(X)))
    if not job.facts["is_classifier"]:
        return predicted
    if predicted.ndim == 1:
        place = (predicted > 0.5).astype(int)
    else:
        place = predicted.argmax(axis=1)
    return np.array(model.label_classes()).astype(int)[place]


def loss_of(job: Job, model: Any, predict: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loss of parameters on rows and targets."""
    one_score = job.facts["is_classifier"] and len(model.label_classes()) == 2

    def loss(params: Any, rows: Any, target: Any) -> Any:
        raw = predict(rows, params)
        if not job.facts["is_classifier"]:
            return jnp.mean(jnp.square(raw.reshape(-1) - target))
        if one_score:
            return jnp.mean(optax.sigmoid_binary_cross_entropy(raw.reshape(-1), target))
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(raw, target))

    return loss


def run(folder: str) -> dict[str, Any]:
    """Run the job of a folder; return what is to be told of it."""
    job = read(folder)
    given = job.rows
    held_out_X, test = given["held_out_X"], given["test_X"]
    model = trained(job)
    model.save(str(job.path))
    predicted = {"start": answers(job, model, test)}
    best = held_out_score(job, answers(job, model, held_out_X))
    told: dict[str, Any] = {"start": {"held_out": best}}
    chosen: tuple[float, Any, dict[str, Any]] = best, None, {}
    X, y = given["X"], given["y"]
    rows = {name: jnp.asarray(values) for name, values in columns(X).items()}
    target = jnp.asarray(y)
    if job.facts["is_classifier"]:
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
        drawn = np.random.default_rng(job.facts["seed"])
        for epoch in range(EPOCHS):
            order = drawn.permutation(len(X))
            for at in range(0, len(order) - BATCH + 1, BATCH):
                params, state = step(params, state, order[at : at + BATCH])
            model.update_with_jax_params(params)
            held_out = held_out_score(job, answers(job, model, held_out_X))
            if held_out > chosen[0]:
                chosen = held_out, params, {"rate": rate, "epochs": epoch + 1}
    told["seconds"] = time.process_time() - start
    model.update_with_jax_params(tuned.params if chosen[1] is None else chosen[1])
    predicted["hard"] = answers(job, model, test)
    told["hard"] = {"held_out": chosen[0], "settings": chosen[2]}
    job.answer(**predicted)
    return told
