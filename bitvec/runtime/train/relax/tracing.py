"""Tracing by compilers, exporters and transforms of torch, which follow operations without values.

A traced computation branches on nothing that it computes, writes into nothing and has no backward
pass of its own: the formulas are those of eager calls, and the compiler sees to speed and memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from bitvec.errors import InputError


def is_traced() -> bool:
    """Return whether torch compiles, exports or transforms what runs now."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._is_tracing()
    )


def is_batched(gradient: Tensor) -> bool:
    """Return whether a backward pass is asked for several gradients at once."""
    return is_traced() or torch._C._functorch.is_legacy_batchedtensor(gradient)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a backward pass that refuses to be differentiated again: a decorator.

    Torch's own makes a gradient that is taken for a constant where only its gradient is asked for:
    second derivatives are then 0, without a word.
    """

    @wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise InputError(
                "second derivatives of a relaxed forest must be taken by torch.func, as in "
                "torch.func.hessian of torch.func.functional_call, got a gradient with "
                "create_graph=True: use these."
            )
        return backward(ctx, *grads)

    return once


def sums(terms: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """Return the sums of the terms of each group, (n_groups, batch), in their order.

    Parameters
    ----------
    terms : float, (n, batch)
    group : int64, (n,)
    """
    total = terms.new_zeros((n_groups, terms.shape[1]))
    if is_traced():  # exporters have no index_add
        return total.scatter_add(0, group[:, None].expand(terms.shape), terms)
    return total.index_add(0, group, terms)


def merged(values: Tensor) -> Tensor:
    """Join the first two axes of an array of three.

    By way of one axis, since torch.export before 2.13 lets `flatten(0, 1)` fix the batch.
    """
    return values.flatten().view(values.shape[0] * values.shape[1], values.shape[2])
