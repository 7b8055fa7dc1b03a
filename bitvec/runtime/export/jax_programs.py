"""Programs of torch.export as functions of JAX: each operator becomes its counterpart there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.jax_operators import OPERATORS, ROUNDED
from bitvec.runtime.predict.torch.hard_forest import HardForest

if TYPE_CHECKING:
    from bitvec.runtime.train.relax.module import SoftForest

Apply = Callable[[dict[str, Any], Any], Any]
Function = Callable[..., Any]
_CHECKS = ("_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size")
_OF_TORCH = ("device", "layout", "memory_format", "pin_memory")
"""Arguments of operators that say nothing to JAX."""


def function_of(module: HardForest | SoftForest) -> tuple[dict[str, Any], Apply]:
    """Return the parameters of a module, and its function of these and of rows.

    Raises
    ------
    InputError
        If float64 is needed, and JAX has it not enabled.
    UnsupportedModelError
        If JAX has no counterpart of an operator, or XLA would take a number of the forest for 0.
    """
    module = copy.deepcopy(module).cpu().eval()
    is_hard = isinstance(module, HardForest)
    given: Any = module if is_hard else module.forest
    moving = {name: name for name, p in module.named_parameters() if p.requires_grad}
    if isinstance(module, HardForest) and module.sums is not None:
        _require_normal(module)
        module.sums.add_by_index()
        moving = {"sums.v": "v"}
    x = torch.zeros((2, given.n_features), dtype=module.dtype)
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(module, (x,), dynamic_shapes=shapes)
    is_wide, width = _is_wide(module, program), 0
    _require_x64(is_wide)
    if isinstance(module, HardForest):
        width = len(module.columns.order)
    params, run = _follow(program, moving, ROUNDED if is_hard else {})
    compiled, n_features, dtype = jax.jit(run), given.n_features, None
    if is_hard:
        dtype = _name(module.dtype)
        compiled = jax.jit(lambda params, x: run(params, _undifferentiable(x)))

    def apply(params: dict[str, Any], x: Any) -> Any:
        """Return the answers of rows (batch, n_features), or of one row (n_features,)."""
        _require_x64(is_wide)
        _require_rows(x, n_features, dtype, width)
        return compiled(params, x) if x.ndim == 2 else compiled(params, x[None])[0]

    return params, apply


def _refuse(primals: Any, tangents: Any) -> Any:
    raise InputError(
        "rows must not require a gradient, which a hard forest does not have: pass "
        "jax.lax.stop_gradient(x), or name a relaxation to train through the forest."
    )


_undifferentiable: Any = jax.custom_jvp(lambda x: x)
_undifferentiable.defjvp(_refuse)


def _is_wide(module: HardForest | SoftForest, program: ExportedProgram) -> bool:
    """Return whether numbers of 32 bits would change the answers."""
    if not isinstance(module, HardForest):
        return module.dtype == torch.float64
    values = [node.meta.get("val") for node in program.graph.nodes]
    wide = any(isinstance(one, Tensor) and one.dtype == torch.float64 for one in values)
    return wide or module.lookup is not None


def _require_x64(is_wide: bool) -> None:
    if is_wide and not jax.config.jax_enable_x64:
        raise InputError(
            "a forest that computes in float64 must have it in JAX too, got `jax_enable_x64` off: "
            'call jax.config.update("jax_enable_x64", True) first.'
        )


def _require_normal(module: HardForest) -> None:
    """Raise UnsupportedModelError for numbers of sums that XLA takes for 0 on a CPU."""
    for name, table in module.named_buffers():
        is_summed = name.startswith("sums.") or (".rows." in name and not name.endswith(".powers"))
        if is_summed and table.is_floating_point():
            small = table[(table != 0) & (table.abs() < torch.finfo(table.dtype).tiny)]
            if len(small):
                raise UnsupportedModelError(
                    "a hard forest in JAX must have no subnormal number in its sums, which XLA "
                    f"takes for 0 on a CPU, got {float(small[0]):g} in `{name}`: set it to 0, or "
                    "use another runtime."
                )


def _require_rows(x: Any, n_features: int, dtype: str | None, width: int) -> None:
    """Raise InputError for rows that do not fit; `width` is of compared columns, that are flat."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        raise InputError(
            f"rows must be an array of NumPy or JAX, got {type(x).__name__}: make one first."
        )
    if x.ndim not in (1, 2) or x.shape[-1] != n_features:
        raise InputError(
            f"rows must have shape (batch, {n_features}) or ({n_features},), got {x.shape}: pass "
            "the training columns."
        )
    if dtype is not None and str(x.dtype) != dtype:
        raise InputError(
            f"rows must be {dtype}, in which the forest compares, got {x.dtype}: pass "
            f'x.astype("{dtype}").'
        )
    if x.size // n_features * width >= 2**31 and not jax.config.jax_enable_x64:
        raise InputError(
            f"rows must be fewer than {2**31 // width} in a call without `jax_enable_x64`, got "
            f"{len(x)}: hand the table over in parts."
        )


def _follow(
    program: ExportedProgram, moving: dict[str, str], operators: dict[str, Function]
) -> tuple[dict[str, Any], Apply]:
    """Return parameters, and what computes a program of them and of rows.

    Parameters
    ----------
    moving : dict
        The names of parameters, by those of the program's tensors.
    operators : dict
        What is taken before `OPERATORS`.
    """
    held = {**program.constants, **program.state_dict}
    params: dict[str, Any] = {}
    inputs: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(lambda params, x: x)
            continue
        assert spec.target is not None
        value, name = held[spec.target].detach().numpy(), moving.get(spec.target)
        if name is None:
            inputs.append(lambda params, x, value=value: jnp.asarray(value))
        else:
            params[name] = jnp.asarray(value)
            inputs.append(lambda params, x, name=name: params[name])
    compute = _steps(program.graph_module, OPERATORS | operators)

    def run(params: dict[str, Any], x: Any) -> Any:
        x = jnp.asarray(x)
        return compute(*(one(params, x) for one in inputs))[0]

    return params, run


def _steps(graph: fx.GraphModule, operators: dict[str, Function]) -> Function:
    """Return a function of the inputs of a graph, which gives the list of its outputs."""
    inputs: list[str] = []
    outputs: list[str] = []
    steps: list[tuple[str, Function]] = []
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            inputs.append(node.name)
        elif node.op == "output":
            outputs = [one.name for one in node.args[0]]
        elif node.op == "call_function" and (step := _step(graph, node, operators)) is not None:
            steps.append((node.name, step))

    def compute(*values: Any) -> list[Any]:
        held = dict(zip(inputs, values, strict=True))
        for name, step in steps:
            held[name] = step(held)
        return [held[name] for name in outputs]

    return compute


def _step(graph: fx.GraphModule, node: fx.Node, operators: dict[str, Function]) -> Function | None:
    """Return a function of what is held, or None for a check of torch's."""
    run, arguments, options = _called(graph, node, operators)
    if run is None:
        return None
    value = node.meta.get("val")
    dtype = _name(value.dtype) if isinstance(value, Tensor) else None

    def step(held: dict[str, Any]) -> Any:
        given = {key: _filled(one, held) for key, one in options.items()}
        found = run(*(_filled(one, held) for one in arguments), **given)
        # Of tensors of several dtypes torch and JAX may give another; without x64 none is wide.
        return found if dtype is None else jnp.asarray(found, _known(dtype))

    return step


def _called(
    graph: fx.GraphModule, node: fx.Node, operators: dict[str, Function]
) -> tuple[Function | None, Sequence[Any], dict[str, Any]]:
    """Return a function of JAX, or None, and the arguments that a node hands to it."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.removeprefix("aten::")
        if name not in operators and name not in _CHECKS:
            raise UnsupportedModelError(
                "a forest in JAX must be made of operators that have a counterpart there, got "
                f"torch's {name}: use its module in torch, or export it."
            )
        options = {key: one for key, one in node.kwargs.items() if key not in _OF_TORCH}
        return operators.get(name), node.args, options
    if str(target) != "wrap_with_set_grad_enabled":
        return target, node.args, dict(node.kwargs)
    given: Any = node.args
    is_enabled, inner, *arguments = given
    run = _steps(getattr(graph, inner.target), operators)
    if is_enabled:
        return run, arguments, {}
    return lambda *values: [lax.stop_gradient(one) for one in run(*values)], arguments, {}


def _filled(argument: Any, held: dict[str, Any]) -> Any:
    """Return an argument with what is held in the place of nodes."""
    if isinstance(argument, fx.Node):
        return held[argument.name]
    if isinstance(argument, Sequence) and not isinstance(argument, str):
        return [_filled(one, held) for one in argument]
    return _known(_name(argument)) if isinstance(argument, torch.dtype) else argument


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _known(dtype: str) -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(np.dtype(dtype)))
