"""Forests as pure functions of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bitvec.core.forest import Forest
from bitvec.errors import InputError, needs

if TYPE_CHECKING:
    from bitvec.runtime.predict.torch.hard_forest import HardForest
    from bitvec.runtime.train.relax.module import SoftForest
    from bitvec.runtime.train.relax.relaxations import Relaxation


def to_jax(
    forest: Forest | HardForest | SoftForest,
    relaxation: str | Relaxation | None = None,
    *,
    output: str = "raw",
) -> tuple[dict[str, Any], Callable[[dict[str, Any], Any], Any]]:
    """Make parameters and a pure function of JAX of a forest, for `jit`, `grad` and `vmap`.

    It computes as the module that `bitvec.to_torch` makes, operation by operation. torch is needed
    here, but not by the function.

    Parameters
    ----------
    forest : Forest, HardForest or SoftForest
        A module of `to_torch` brings its own options: `to_torch(forest, "sigmoid", gamma=2.0,
        dtype=torch.float64).calibrate(X)`.
    relaxation : str or Relaxation, optional
        As of `to_torch`; without one, the function is hard.
    output : "raw", "probabilities", "label", "leaves" or "memberships"
        Of a hard function, as of `to_torch`.

    Returns
    -------
    params : dict of arrays
        What may move of a soft function, by the names of torch's parameters; of a hard one, the
        leaf vectors `v` times the weights of trees, where raw scores are computed.
    apply : callable
        (params, x) to the answers of rows (batch, n_features), or of one row (n_features,). Hard
        raw scores and leaves have the bits of `bitvec.compile(forest)`. Hard functions take rows in
        the forest's dtype and have no gradient in them: differentiation raises an InputError.

    Raises
    ------
    InputError
        If an option is out of place, or the forest computes in float64 and JAX has not
        `jax_enable_x64`; from the function, if rows do not fit.
    UnsupportedModelError
        If `to_torch` refuses the forest, JAX lacks an operation, or a hard sum holds a subnormal
        number.
    MissingLibraryError
        If JAX or torch is not installed.

    Notes
    -----
    XLA takes subnormal numbers for 0 on a CPU. Tests of one column are exact all the same; a sum of
    an oblique or polytope node, of linear leaves or of trees is not, where it is subnormal.
    Compiled for a GPU, nothing was tried.

    Examples
    --------
    >>> import jax                                                        # doctest: +SKIP
    >>> params, apply = to_jax(forest, "sigmoid")                         # doctest: +SKIP
    >>> slopes = jax.grad(lambda params: apply(params, X).sum())(params)  # doctest: +SKIP
    """
    from bitvec.runtime.predict.torch.hard_forest import HardForest
    from bitvec.runtime.train.relax.module import SoftForest

    is_module, is_soft = isinstance(forest, HardForest | SoftForest), relaxation is not None
    if (is_module and is_soft) or (output != "raw" and (is_module or is_soft)):
        raise InputError(
            "`relaxation` and `output` must be left out with a module of `to_torch`, and `output` "
            f"with a relaxation, got {relaxation!r} and {output!r}: leave out one."
        )
    if isinstance(forest, HardForest | SoftForest):
        module = forest
    elif relaxation is not None:
        module = SoftForest.from_forest(forest, relaxation)
    else:
        module = HardForest(forest, output=output)
    with needs("jax", "jax", "bitvec.to_jax"):
        from bitvec.runtime.export.jax_programs import function_of
    return function_of(module)
