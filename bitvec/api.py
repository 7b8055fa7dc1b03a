"""The verbs of the package: each joins a converter, the core and an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from bitvec.core.arrays import ArrayLike
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest, require_forest
from bitvec.core.machine import DecisionMachine
from bitvec.errors import InputError
from bitvec.runtime.predict import machine_predictor, predictor
from bitvec.runtime.predict.composition_predictor import CompositionPredictor
from bitvec.runtime.predict.predictor import Predictor

if TYPE_CHECKING:
    from bitvec.converters.dispatch import convert as convert
    from bitvec.runtime.predict.torch.hard_composition import HardComposition
    from bitvec.runtime.predict.torch.hard_forest import HardForest
    from bitvec.runtime.train.relax.module import SoftForest
    from bitvec.runtime.train.relax.relaxations import Relaxation
    from bitvec.verify.certificates import Certificate
    from bitvec.verify.certificates.composition_certificate import CompositionCertificate


def __getattr__(name: str) -> Any:
    if name != "convert":
        raise AttributeError(f"module 'bitvec.api' has no attribute {name!r}")
    # Who runs a forest that was saved needs no converter.
    from bitvec.converters.dispatch import convert

    globals()["convert"] = convert
    return convert


@overload
def compile(
    forest: Forest | DecisionMachine,
    *,
    engine: str = "auto",
    kernel: str | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
    warm: bool = False,
) -> Predictor: ...


@overload
def compile(
    forest: Composition,
    *,
    engine: str = "auto",
    kernel: str | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
    warm: bool = False,
) -> CompositionPredictor: ...


def compile(
    forest: Forest | DecisionMachine | Composition,
    *,
    engine: str = "auto",
    kernel: str | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
    warm: bool = False,
) -> Predictor | CompositionPredictor:
    """Make a forest, a decision machine or a composition ready to predict.

    Parameters
    ----------
    forest : Forest, DecisionMachine or Composition
        A machine has one way to run: the options below are of forests, alone or composed.
    engine : {"auto", "numba", "torch", "triton", "reference"}
        "auto" is torch where a device is named, else numba; where numba has no wheel, torch or the
        reference, which are many times slower, as one warning says.
    kernel : str, optional
        The kernel of the engine numba, or the form of the engine torch, by name; the engine chooses
        by the forest if not given, and `info` says which and why.
    n_jobs : int, optional
        Threads: None or -1 for all cores, -2 for all but one. Small batches use one thread.
    device : str, optional
        Where torch or triton runs, for example "cuda".
    warm : bool
        Whether to compile now what would otherwise be compiled by the first prediction; later runs
        load it from numba's cache.

    Raises
    ------
    InputError
        If the engine is unknown or has no use for an option.
    MissingLibraryError
        If the engine's library is not installed.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> compile(stump).predict([[0.0, 9.0], [1.0, 9.0]]).tolist()
    [10.0, 20.0]
    """
    if isinstance(forest, Composition):
        return CompositionPredictor(
            forest, engine=engine, kernel=kernel, n_jobs=n_jobs, device=device, warm=warm
        )
    if not isinstance(forest, DecisionMachine):
        return predictor.compile(
            forest, engine=engine, kernel=kernel, n_jobs=n_jobs, device=device, warm=warm
        )
    for name, value in {"kernel": kernel, "n_jobs": n_jobs, "device": device}.items():
        if value is not None:
            raise InputError(
                f"`{name}` must be None for a decision machine, got {value!r}: leave it out."
            )
    return machine_predictor.compile(forest)


@overload
def certify(
    forest: Forest,
    model: Any,
    X: ArrayLike | None = None,
    *,
    exported: bool | None = None,
    engine: str = "auto",
    seed: int = 0,
    allow_values_only: bool = False,
    progress: Callable[[float], None] | Literal[False] | None = None,
) -> Certificate: ...


@overload
def certify(
    forest: Composition,
    model: Any,
    X: ArrayLike | None = None,
    *,
    exported: bool | None = None,
    engine: str = "auto",
    seed: int = 0,
    allow_values_only: bool = False,
    progress: Callable[[float], None] | Literal[False] | None = None,
) -> CompositionCertificate: ...


def certify(
    forest: Forest | Composition,
    model: Any,
    X: ArrayLike | None = None,
    *,
    exported: bool | None = None,
    engine: str = "auto",
    seed: int = 0,
    allow_values_only: bool = False,
    progress: Callable[[float], None] | Literal[False] | None = None,
) -> Certificate | CompositionCertificate:
    """Compare a forest with its source, or with what it was exported to, and certify the result.

    Where the source shows its trees, they are proved to be the same function node by node. Rows are
    built for each node from the box of its path, so that a tie, one ulp to each side, NaN,
    infinities, signed zeros and every kind of category code really reach it.

    Parameters
    ----------
    forest : Forest or Composition
        Of a composition each member is certified, and the combined answers are compared.
    model : object, path or Oracle
        The model that the forest was converted from, its file, or a file that it was exported to.
        Of an estimator of this package its trees' own walks and its own answers are compared.
    X : (batch, n_features), optional
        Rows to compare on as well; a data frame is handed to `model` as it is, besides frames that
        are made of its rows, where `model` is an object of a library that takes frames.
    exported : bool, optional
        Whether `model` is what the forest was exported to, which may number leaves anew; by
        default it is where it comes from another library than the forest.
    engine : str
        The engine that answers for the forest.
    seed : int
        Of the values in columns that a path leaves open.
    allow_values_only : bool
        Whether the certificate passes on values alone where `model` shows neither its trees nor
        leaf ids, as an exported file without them does.
    progress : callable or False, optional
        Called with the fraction done; False for none. By default a bar where stderr is a terminal.

    Returns
    -------
    Certificate, or CompositionCertificate
        `grade` says what it rests on: "proved", "two-sided" or "values only". `passed` says whether
        nothing differs, and every reachable node was seen on every outcome where nothing is proved;
        `summary()` and `save(path)` say the rest.

    Raises
    ------
    InputError
        If X or the model does not fit the forest: another number of trees, features or outputs.

    Examples
    --------
    >>> from bitvec import convert
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> certify(convert(model), model, X).passed
    True
    """
    # Predicting needs none of it.
    from bitvec import certification, composition_certification

    if isinstance(forest, Composition):
        return composition_certification.compared(
            forest,
            model,
            X,
            engine=engine,
            seed=seed,
            allow_values_only=allow_values_only,
            progress=progress,
        )
    require_forest(forest)
    return certification.compared(
        forest,
        model,
        X,
        exported=exported,
        engine=engine,
        seed=seed,
        allow_values_only=allow_values_only,
        progress=progress,
    )


@overload
def to_torch(
    forest: Forest,
    relaxation: None = None,
    *,
    output: Literal["raw", "probabilities", "label", "leaves", "memberships"] = "raw",
    form: Literal["auto", "matrix", "perfect", "levels"] = "auto",
    device: Any = None,
) -> HardForest: ...


@overload
def to_torch(
    forest: Composition, relaxation: None = None, *, device: Any = None
) -> HardComposition: ...


@overload
def to_torch(
    forest: Forest,
    relaxation: str | Relaxation,
    *,
    trainable: Iterable[str] | Mapping[str, Any] | None = None,
    gamma: float | None = None,
    dtype: Any = None,
    leaves: Literal["values", "logits"] | None = None,
    device: Any = None,
    routing: Literal["auto", "dense", "sparse"] | None = None,
    tree_chunk: int | None = None,
) -> SoftForest: ...


def to_torch(
    forest: Forest | Composition,
    relaxation: str | Relaxation | None = None,
    *,
    output: str = "raw",
    form: str = "auto",
    trainable: Iterable[str] | Mapping[str, Any] | None = None,
    gamma: float | None = None,
    dtype: Any = None,
    leaves: str | None = None,
    device: Any = None,
    routing: str | None = None,
    tree_chunk: int | None = None,
) -> HardForest | HardComposition | SoftForest:
    """Make a torch module of a forest: its exact answers, or a relaxation that can be trained.

    Without a relaxation the module is hard: it takes tensors in the forest's dtype and gives the
    answers of `compile(forest)`, leaves and raw scores bit for bit, without a gradient, and
    `torch.compile` and `torch.export` take it. `output` and `form` are options of this module,
    `device` of both, all others of relaxations.

    Parameters
    ----------
    relaxation : str or Relaxation, optional
        A gate for the tests with the product along each path: "sigmoid", "smooth_step",
        "noisy_or", "kernel", "straight_through"; or a map of the leaves' scores: "softmax",
        "sparsemax" and "entmax15", of two-sided margins or, with "_ternary" behind the name, of
        D(2s − 1) − depth, and "index_sparsemax". A `bitvec.runtime.train.relax.Relaxation` names
        gate, map and score apart. Each tends to the hard forest as gamma rises.
    output : "raw", "probabilities", "label", "leaves" or "memberships"
        Answers of a hard module: raw scores (batch, n_outputs); probabilities (batch, n_classes)
        and labels (batch,) of a classifier, texts by their index in the module's `classes`; leaf
        numbers within each tree, int64 (batch, n_trees); or h (batch, n_leaves), 1 at each of those
        leaves and 0 elsewhere.
    form : "auto", "matrix", "perfect" or "levels"
        How trees run in a hard module: by products with B, padded to one depth, or level by level.
    trainable : names among "S", "b", "v", "r", "base_score", "phi", or a mapping from them
        What may move, S, b and v if not given; all else comes back from `from_torch` bit for bit.
        While S may not move, axis-aligned tests stay axis-aligned; "phi" is the feature map. In a
        mapping, "all", {"levels": depths} or {"nodes": mask or positions} of S, b and r, and
        {"leaves": mask or positions} of v.
    gamma : float
        Steepness, 1 if not given, in units of each node's margin standard deviation once
        `calibrate(X)` has measured it, else of the margin itself.
    dtype : torch.dtype, optional
        In which the module computes: torch.float32 if not given, torch.float64, or torch.bfloat16,
        whose parameters and sums over leaves are float32.
    leaves : "values" or "logits"
        What the parameter `v` holds, values if not given; with logits, leaf vectors are their
        softmax, which only leaves that hold probabilities of two or more classes can be.
    device : torch.device or str, optional
        The CPU if not given.
    routing : "auto", "dense" or "sparse"
        Whether `smooth_step` visits every node for every row, or those only that are reached: the
        same scores and gradients. By default the faster one, judged by a few rows.
    tree_chunk : int, optional
        Trees that are computed together, and again in the backward pass, which keeps memory from
        growing with the forest. By default as many as fit a cache, and again only where memory
        would grow large.

    Returns
    -------
    HardForest, HardComposition or SoftForest
        Calling a SoftForest on rows returns raw scores, (batch, n_outputs), differentiable in its
        parameters, and in rows that are a tensor which requires a gradient, as after a layer that
        trains. What would lose such a gradient, as a feature map that stays, is refused.

    Raises
    ------
    InputError
        If an option is out of place, or parts of a relaxation do not go together.
    UnsupportedModelError
        If the forest cannot be relaxed, or tensor operations do not hold it.
    MissingLibraryError
        If torch is not installed.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> import torch
    >>> to_torch(stump)(torch.tensor([[0.5, 9.0], [1.5, 9.0]], dtype=torch.float64)).tolist()
    [[10.0], [20.0]]
    >>> to_torch(stump, "sigmoid")([[0.5, 9.0], [1.5, 9.0]]).tolist()
    [[15.0], [17.3106]]

    Beyond its band a smooth step is the hard test, and what may not move has no gradient:

    >>> soft = to_torch(stump, "smooth_step", gamma=4.0, trainable={"v": {"leaves": [1]}})
    >>> soft([[0.5, 9.0], [1.5, 9.0]]).tolist()
    [[15.0], [20.0]]
    >>> soft([[1.5, 9.0]]).sum().backward()
    >>> soft.b.grad is None, soft.v.grad.tolist()
    (True, [[0.0], [1.0]])

    Any gate, map and score that go together make a relaxation:

    >>> from bitvec.runtime.train.relax import Relaxation
    >>> sharp = Relaxation("relu", "index_sparsemax")
    >>> to_torch(stump, sharp, tree_chunk=1).memberships([[0.7, 9.0]]).tolist()
    [[0.6, 0.4]]
    """
    soft = {"trainable": trainable, "gamma": gamma, "dtype": dtype, "leaves": leaves}
    soft |= {"routing": routing, "tree_chunk": tree_chunk}
    given = {name: value for name, value in soft.items() if value is not None}
    if isinstance(forest, Composition):
        if relaxation is not None or given or (output, form) != ("raw", "auto"):
            raise InputError(
                "a composition must become a hard module without options but `device`, got others: "
                "relax its forests, `composition.forests`."
            )
        from bitvec.runtime.predict.torch.hard_composition import HardComposition

        return HardComposition(forest, device=device)
    if relaxation is None:
        require_forest(forest)
        if given:
            raise InputError(
                f"`{next(iter(given))}` must be left out without a relaxation, got "
                f'{next(iter(given.values()))!r}: name one, as in to_torch(forest, "sigmoid").'
            )
        from bitvec.runtime.predict.torch.hard_forest import HardForest

        return HardForest(forest, output=output, form=form, device=device)
    for name, value, only in (("output", output, "raw"), ("form", form, "auto")):
        if value != only:
            raise InputError(
                f"`{name}` must be {only!r} with a relaxation, got {value!r}: leave it out."
            )
    from bitvec.runtime.train.relax.module import SoftForest

    return SoftForest.from_forest(forest, relaxation, device=device, **given)
