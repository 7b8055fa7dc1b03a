"""The engine of Triton kernels: leaves and raw scores bit for bit, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import InputError, needs
from bitvec.runtime.predict.engine import FewRows
from bitvec.runtime.predict.reference_engine import ReferenceEngine
from bitvec.runtime.predict.torch import devices

with needs("triton", "triton", "The engine triton"):
    import triton

    from bitvec.runtime.predict.gpu.device_forest import DeviceForest
    from bitvec.runtime.predict.gpu.node_tables import NodeTables

from bitvec.runtime.predict.gpu import device_rows, host_rows


class TritonEngine:
    """Run a forest by kernels in Triton: exit leaves and raw scores bit-identical to the reference.

    Rows become codes on the device once, one for each column and missing rule, and nodes compare
    codes. Tables of the host are streamed through pinned memory while the device works; tables on
    the device are read where they lie, and the answer stays there: see `few_rows`.

    Parameters
    ----------
    forest : Forest
        With a prediction kernel, `exit_leaves` is the crisp route and `raw` the soft score, which
        is then computed by the reference. A feature map is computed on the host.
    device : torch.device or str, optional
        A CUDA device, "cuda" if not given. The CPU in Triton's interpreter (TRITON_INTERPRET=1)
        only, which is thousands of times slower and for tests.

    Raises
    ------
    InputError
        If the device is no CUDA device that torch can use here.
    MissingLibraryError
        If Triton is not installed.
    """

    name = "triton"

    def __init__(self, forest: Forest, device: torch.device | str | None = None) -> None:
        interprets = bool(triton.knobs.runtime.interpret)
        default = "cpu" if interprets else "cuda"
        self.forest, self.device = forest, devices.find(default if device is None else device)
        if self.device.type != default:
            remedy = 'pass device="cuda"' if default == "cuda" else 'pass device="cpu"'
            mode = " in its interpreter" if interprets else ""
            raise InputError(
                f"the engine triton must run on the device {default}{mode}, got "
                f"{self.device}: {remedy}, or take the engine torch."
            )
        self._trees = DeviceForest(forest, self.device)

    def info(self) -> dict[str, Any]:
        """Return the form of the trees, the planes and the bytes that they take on the device."""
        nodes, layout = self._trees.nodes, self._trees.layout
        return {
            "engine": self.name,
            "device": str(self.device),
            "form": _form(nodes),
            "planes": layout.n_planes,
            "thresholds": layout.thresholds.size,
            "device_bytes": self._trees.n_bytes,
        }

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree."""
        if out is None:
            out = np.empty((len(X), self.forest.n_trees), np.int32)
        for part, rows in host_rows.stream(self._mapped(X), self._trees.codes.dtype, self.device):
            out[part] = self._trees.exits(rows).T.cpu().numpy()
        return out

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return raw scores in the forest's output dtype, summed in the source's order."""
        forest = self.forest
        if out is None:
            out = np.empty((len(X), forest.n_outputs), forest.output.dtype)
        if forest.kernel is not None:
            return ReferenceEngine(forest).raw(X, out)
        rows_of_leaves = X if forest.feature_map is not None else None
        answers = []
        for part, rows in host_rows.stream(self._mapped(X), self._trees.codes.dtype, self.device):
            read = None
            if rows_of_leaves is not None and forest.leaves.linear is not None:
                read = torch.tensor(rows_of_leaves[part].astype(forest.dtype), device=self.device)
            answers.append((part, self._trees.raw(rows, read)))
        for part, answer in answers:
            out[part] = answer.cpu().numpy()
        return out

    def few_rows(self, verb: str, *, finite: bool) -> FewRows:
        """Return what answers rows that lie on the device by a tensor there.

        It takes torch tensors, and any array with `__cuda_array_interface__` or DLPack, without a
        copy, whatever their number and strides; it returns None for all else. Probabilities are
        within the last places that `torch.hard_links` states. Where no tensor holds the answer, it
        raises InputError for rows on the device.
        """
        forest = self.forest
        answer = None
        if forest.kernel is None and forest.feature_map is None:
            answer = device_rows.answer_of(verb, forest, self._trees)

        def run(X: Any) -> Tensor | None:
            rows = device_rows.as_rows(X, forest, self.device)
            if rows is None:
                return None
            if answer is None:
                raise InputError(
                    f"`{verb}` of this forest must be asked for rows of the host, got rows on "
                    f"{rows.device}: pass them as an array."
                )
            if finite:
                device_rows.require_finite(rows)
            with torch.inference_mode():
                return answer(rows)

        return run

    def _mapped(self, X: Array) -> Array:
        return X if self.forest.feature_map is None else reference.columns(self.forest, X)


def _form(nodes: NodeTables) -> str:
    if not nodes.depth:
        return "linked"
    return f"{'oblivious' if nodes.shared else 'full'}, of depth {nodes.depth}"
