"""softplus against decimal arithmetic, and of the same bits in every runtime."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from bitvec.core.graph import operators
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph
from bitvec.core.softplus import softplus
from bitvec.runtime.predict.cpu import softplus_kernel as cpu_softplus

DTYPES = [np.float32, np.float64]
SPECIAL = [
    0.0, -0.0, 5e-324, -5e-324, 37.0, -37.0, -745.0, -745.2, -746.0, 746.0, 1e300, -1e300,
    np.inf, -np.inf, np.nan, 0.34657359, -0.34657359,
]  # fmt: skip


def values(dtype: Any, n: int = 3_000) -> Any:
    rng = np.random.default_rng(0)
    parts = [SPECIAL, rng.normal(0, 4, n), rng.uniform(-750, 750, n), rng.normal(0, 1e-9, n)]
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate(parts).astype(dtype)


def bits(x: Any) -> Any:
    """Return what tells numbers apart, -0.0 from 0.0, and all NaN alike."""
    return np.where(np.isnan(x), -1, x.view(np.int32 if x.dtype == np.float32 else np.int64))


def exact(x: float) -> Decimal:
    with localcontext() as context:
        context.prec = 300  # 1 + exp(-600) takes 261 digits
        rest = (Decimal(1) + (-abs(Decimal(x))).exp()).ln()
        return max(Decimal(x), Decimal(0)) + rest


@pytest.mark.parametrize(("dtype", "ulps"), [(np.float32, 0.51), (np.float64, 3)])
def test_errs_by_a_few_units_in_the_last_place(dtype: Any, ulps: float) -> None:
    x = values(dtype, 200)
    x = x[np.isfinite(x) & (np.abs(x) < 600)]
    found = softplus(x)
    assert found.dtype == dtype
    tiny = float(np.finfo(dtype).tiny)
    for argument, answer in zip(x.tolist(), found.tolist(), strict=True):
        right = exact(argument)
        unit = Decimal(float(np.spacing(dtype(max(float(right), tiny)))))
        assert abs(Decimal(answer) - right) <= Decimal(ulps) * unit, argument


def test_at_the_ends() -> None:
    x = np.array([-np.inf, -1e300, -746.0, np.inf, 1e300, np.nan])
    assert bits(softplus(x)).tolist() == bits(np.array([0, 0, 0, np.inf, 1e300, np.nan])).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_in_every_company(dtype: Any) -> None:
    x = values(dtype)
    one_by_one = np.concatenate([softplus(x[at : at + 1]) for at in range(0, len(x), 7)])
    assert np.array_equal(bits(softplus(x))[::7], bits(one_by_one))
    assert np.array_equal(bits(softplus(x[::3])), bits(softplus(x))[::3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cpu_kernel_has_the_same_bits(dtype: Any) -> None:
    x = values(dtype)
    one = cpu_softplus.softplus

    @numba.njit(error_model="numpy")
    def each(x: Any) -> Any:
        found = np.empty_like(x)
        for at in range(x.size):
            found[at] = one(x[at], x.dtype.type)
        return found

    assert np.array_equal(bits(each(x)), bits(softplus(x)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 8, 1_000])
def test_onnxruntime_has_the_same_bits_for_any_number_of_rows(dtype: Any, n: int) -> None:
    session = in_onnxruntime(np.dtype(dtype))
    x = values(dtype)[:n] if n < 1_000 else values(dtype)
    for part in (x, x[::-1].copy()):
        (found,) = session.run(None, {"x": part})
        assert np.array_equal(bits(found), bits(softplus(part)))


@given(st.data())
def test_onnxruntime_has_the_same_bits_of_any_number(data: Any) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    elements = st_numpy.from_dtype(dtype)
    x = data.draw(st_numpy.arrays(dtype, st.integers(1, 20), elements=elements))
    (found,) = in_onnxruntime(dtype).run(None, {"x": x})
    assert np.array_equal(bits(found), bits(softplus(x)))


def in_onnxruntime(dtype: np.dtype, sessions: dict[Any, Any] = {}) -> Any:  # noqa: B006
    """Return a session of the operators alone, made once for each dtype."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    if dtype not in sessions:
        graph = Graph(Interface())
        x = graph.input("x", dtype, ("batch",))
        graph.output("y", operators.softplus(graph, x, dtype), dtype, ("batch",))
        nodes = [
            onnx.helper.make_node(one.kind, one.inputs, one.outputs, **one.attributes)
            for one in graph.operators
        ]
        kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        shown = [onnx.helper.make_tensor_value_info(name, kind, ["batch"]) for name in "xy"]
        constants = [
            onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()
        ]
        made = onnx.helper.make_graph(nodes, "softplus", shown[:1], shown[1:], constants)
        opset = [onnx.helper.make_opsetid("", 18)]
        model = onnx.helper.make_model(made, opset_imports=opset, ir_version=9)
        sessions[dtype] = runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    return sessions[dtype]
