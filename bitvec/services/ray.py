"""Pools of actors for Ray Data, refused where Ray would wait without end."""

from __future__ import annotations

from math import floor
from typing import Any

from bitvec.errors import InputError


def actor_pool(size: int, *, num_cpus: float = 1) -> Any:
    """Return a pool of actors for `map_batches(..., compute=)`, if it leaves a CPU to read with.

    Actors hold their CPUs for the whole run, and a task that reads or writes needs one of its own.
    Where none is left Ray starts the actors and then waits, without a word.

    Parameters
    ----------
    size : int
        Actors: each loads the model once.
    num_cpus : float
        CPUs of each, as `map_batches(..., num_cpus=)` has it.

    Returns
    -------
    ray.data.ActorPoolStrategy

    Raises
    ------
    InputError
        If the CPUs of the cluster that Ray is connected to do not suffice.
    """
    import ray
    from ray.data import ActorPoolStrategy

    if type(size) is not int or size < 1:
        raise InputError(f"`size` must be a whole number of actors, at least 1, got {size!r}.")
    if not num_cpus > 0:
        raise InputError(f"`num_cpus` must be above 0, got {num_cpus!r}.")
    if not ray.is_initialized():
        ray.init()
    cpus = ray.cluster_resources().get("CPU", 0)
    if size * num_cpus + 1 > cpus:
        most = floor((cpus - 1) / num_cpus)
        remedy = f"ask for at most {most}" if most >= 1 else "start Ray with more CPUs"
        raise InputError(
            f"the actors must leave one CPU to read and write with, got {size} of {num_cpus:g} CPU "
            f"each in a cluster of {cpus:g}, where Ray would wait without end: {remedy}."
        )
    return ActorPoolStrategy(size=size)
