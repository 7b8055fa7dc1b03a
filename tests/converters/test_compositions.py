"""Laws of compositions: ensembles of forests answer as scikit-learn's own do, bit for bit."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

for library in ("lightgbm", "sklearn", "xgboost"):
    pytest.importorskip(library)

import lightgbm  # noqa: E402
import xgboost  # noqa: E402
from proof_laws import some_in_full  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor  # noqa: E402
from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    StandardScaler,
)

import bitvec  # noqa: E402
from bitvec import files  # noqa: E402
from bitvec.converters.catboost.oracle import is_x86  # noqa: E402
from bitvec.core.composition import Composition, Interpolated, Logistic  # noqa: E402
from bitvec.errors import FileFormatError, InputError, InvalidForestError, UnsupportedModelError  # noqa: E402
from bitvec.runtime.predict import datafiles  # noqa: E402
from bitvec.verify.certificates.digest import forest_digest  # noqa: E402

SMALL = {"n_estimators": 3, "max_depth": 4, "random_state": 0}


def rows(n_classes: int = 3, *, blanks: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4)) * [1, 10, 0.1, 3]
    y = (X[:, 0] + X[:, 1] / 10 > 0).astype(int) + (X[:, 2] > 0.05) * (n_classes > 2)
    if blanks:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def forests(n: int = 2) -> list[tuple[str, Any]]:
    made = [RandomForestClassifier(3, max_depth=4, random_state=seed) for seed in range(n)]
    return [(f"forest{seed}", model) for seed, model in enumerate(made)]


def regressors() -> list[tuple[str, Any]]:
    return [
        ("forest", RandomForestRegressor(**SMALL)),
        ("boosting", GradientBoostingRegressor(**SMALL)),
        ("histogram", HistGradientBoostingRegressor(max_iter=3)),
    ]


def others() -> list[tuple[str, Any]]:
    return [
        ("forest", RandomForestClassifier(**SMALL)),
        ("boosting", GradientBoostingClassifier(**SMALL)),
        ("histogram", HistGradientBoostingClassifier(max_iter=3)),
        ("lightgbm", lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1)),
    ]


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "voting": lambda: VotingClassifier(others(), voting="soft"),
    "voting, weights": lambda: VotingClassifier(others(), voting="soft", weights=[3, 1, 0.5, 2]),
    "voting of float32": lambda: VotingClassifier(
        [(str(d), xgboost.XGBClassifier(n_estimators=2, max_depth=d, n_jobs=1)) for d in (2, 3)],
        voting="soft",
        weights=[1, 2],
    ),
    "voting of nine": lambda: VotingClassifier(forests(9), voting="soft"),
    "sigmoid": lambda: CalibratedClassifierCV(RandomForestClassifier(**SMALL), cv=3),
    "isotonic": lambda: CalibratedClassifierCV(
        RandomForestClassifier(**SMALL), method="isotonic", cv=3
    ),
    "sigmoid of decisions": lambda: CalibratedClassifierCV(
        GradientBoostingClassifier(**SMALL), cv=3, ensemble=False
    ),
    "isotonic of decisions": lambda: CalibratedClassifierCV(
        HistGradientBoostingClassifier(max_iter=3), method="isotonic", cv=3, ensemble=False
    ),
    "isotonic of a voting": lambda: CalibratedClassifierCV(
        VotingClassifier(forests(), voting="soft"), method="isotonic", cv=3
    ),
    "bagging": lambda: BaggingClassifier(
        RandomForestClassifier(2, max_depth=3), 4, max_features=0.6, random_state=0
    ),
    "bagging, boosted": lambda: BaggingClassifier(
        HistGradientBoostingClassifier(max_iter=2), 3, random_state=0
    ),
    "searched": lambda: GridSearchCV(
        VotingClassifier(forests(), voting="soft"), {"forest0__max_depth": [3]}, cv=2
    ),
    "behind a scaler": lambda: make_pipeline(
        StandardScaler(), VotingClassifier(forests(), voting="soft")
    ),
    "of pipelines": lambda: CalibratedClassifierCV(
        make_pipeline(MinMaxScaler(), RandomForestClassifier(**SMALL)), cv=2
    ),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "voting": lambda: VotingRegressor(regressors()),
    "voting, weights": lambda: VotingRegressor(regressors(), weights=[0.3, 1, 2]),
    "bagging": lambda: BaggingRegressor(ExtraTreesRegressor(**SMALL), 3, random_state=0),
    "target by functions": lambda: TransformedTargetRegressor(
        RandomForestRegressor(**SMALL), func=np.log1p, inverse_func=np.expm1
    ),
    "target, float32": lambda: TransformedTargetRegressor(
        xgboost.XGBRegressor(n_estimators=3, n_jobs=1), func=np.log1p, inverse_func=np.expm1
    ),
    "target, scaled": lambda: TransformedTargetRegressor(
        HistGradientBoostingRegressor(max_iter=3), transformer=StandardScaler()
    ),
    "target, to a range": lambda: TransformedTargetRegressor(
        GradientBoostingRegressor(**SMALL), transformer=MinMaxScaler()
    ),
}


def certified(model: Any, X: np.ndarray) -> Composition:
    """Return a model's composition: each member certified, and no combined answer differs."""
    composition = bitvec.convert(model)
    assert isinstance(composition, Composition)
    certificate = bitvec.certify(composition, model, X, progress=False, allow_values_only=True)
    assert certificate.passed, certificate.summary()
    assert certificate.n_rows > len(X)
    return composition


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_answer_as_their_source(name: str, n_classes: int) -> None:
    X, y = rows(n_classes)
    labels = np.array(["no", "so", "yes"])[y]
    model = CLASSIFIERS[name]().fit(X, y if "32" in name else labels)
    predictor = bitvec.compile(certified(model, X))
    np.testing.assert_array_equal(predictor.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_answer_as_their_source(name: str) -> None:
    X, _ = rows()
    y = np.exp(X[:, 0]) + X[:, 3] ** 2
    model = REGRESSORS[name]().fit(X, y)
    predictor = bitvec.compile(certified(model, X))
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
    np.testing.assert_array_equal(predictor.predict(X[:1]), model.predict(X[:1]))
    with pytest.raises(InputError, match="needs a classifier"):
        predictor.predict_proba(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["isotonic of a voting", "bagging", "voting, weights", "sigmoid"])
def test_a_saved_composition_is_the_same(name: str, tmp_path: Path) -> None:
    X, y = rows()
    composition = bitvec.convert(CLASSIFIERS[name]().fit(X, y))
    path = tmp_path / "composition.safetensors"
    bitvec.save(composition, path)
    again = files.load_composition(path)
    assert files.identical(again, composition)
    answers = [bitvec.compile(one).predict_proba(X) for one in (again, composition)]
    np.testing.assert_array_equal(*answers)
    with pytest.raises(bitvec.errors.FileFormatError, match="load_composition"):
        bitvec.load(path)


def test_a_saved_target_is_the_same(tmp_path: Path) -> None:
    X, _ = rows()
    model = REGRESSORS["target, scaled"]().fit(X, X[:, 0])
    composition = bitvec.convert(model)
    bitvec.save(composition, tmp_path / "target.safetensors")
    again = files.load_composition(tmp_path / "target.safetensors")
    np.testing.assert_array_equal(bitvec.compile(again).predict(X), model.predict(X))


IN_FILES = {
    **{name: make for name, make in CLASSIFIERS.items() if name[:6] != "voting" or "nine" in name},
    **{f"target {name}": make for name, make in REGRESSORS.items() if "32" not in name},
}
"""Ensembles whose members are all of scikit-learn, which .skops files hold."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", some_in_full([(name,) for name in IN_FILES], one_in=4))
def test_a_file_converts_to_the_composition_of_the_model(name: str, tmp_path: Path) -> None:
    skops_io = pytest.importorskip("skops.io")
    X, y = rows()
    model = IN_FILES[name]().fit(X, np.exp(X[:, 0]) if "target" in name else y)
    path = tmp_path / "ensemble.skops"
    skops_io.dump(model, path)
    composition, live = bitvec.convert(path), bitvec.convert(model)
    assert isinstance(composition, Composition)
    pairs = zip(composition.forests, live.forests, strict=True)
    assert all(forest_digest(one) == forest_digest(other) for one, other in pairs)
    predictor = bitvec.compile(composition)
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
    if composition.classes is not None:
        np.testing.assert_array_equal(predictor.predict_proba(X), model.predict_proba(X))
    certificate = bitvec.certify(composition, path, X, progress=False)
    assert certificate.passed, certificate.summary()
    bitvec.save(composition, tmp_path / "saved")
    assert files.identical(bitvec.convert(tmp_path / "saved"), composition)


def test_a_damaged_file_of_an_ensemble_is_one_sentence(tmp_path: Path) -> None:
    skops_io = pytest.importorskip("skops.io")
    X, y = rows()
    model = CLASSIFIERS["isotonic"]().fit(X, y)
    whole = skops_io.dumps(model)
    with ZipFile(io.BytesIO(whole)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(entries["schema.json"])
    parts = schema["content"]["content"]
    for name in ("calibrated_classifiers_", "classes_", "estimator"):
        for value in (
            None,
            {
                "__class__": "str",
                "__module__": "builtins",
                "__loader__": "JsonNode",
                "content": '"no"',
            },
        ):
            changed = {**parts, name: value} if value else {k: parts[k] for k in parts if k != name}
            text = json.dumps({**schema, "content": {**schema["content"], "content": changed}})
            path = tmp_path / "damaged.skops"
            with ZipFile(path, "w") as archive:
                for entry, data in {**entries, "schema.json": text}.items():
                    archive.writestr(entry, data)
            if name == "estimator":  # which is not read
                assert bitvec.convert(path).n_trees == 9
                continue
            with pytest.raises((FileFormatError, UnsupportedModelError)):
                bitvec.convert(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((FileFormatError, UnsupportedModelError)):
        bitvec.convert(path)


def test_another_ensemble_is_refused() -> None:
    X, y = rows()
    composition = bitvec.convert(CLASSIFIERS["isotonic"]().fit(X, y))
    with pytest.raises(InputError, match="got one of 9 members for 3"):
        bitvec.certify(composition, CLASSIFIERS["voting of nine"]().fit(X, y), progress=False)


def test_a_composition_of_other_rows_does_not_pass() -> None:
    X, y = rows()
    model = CLASSIFIERS["sigmoid"]().fit(X, y)
    other = CLASSIFIERS["sigmoid"]().fit(X[::-1], 2 - y)
    certificate = bitvec.certify(bitvec.convert(model), other, X, progress=False)
    assert not certificate.passed
    assert certificate.n_mismatches > 0
    assert certificate.summary().startswith("FAILED")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: VotingClassifier(forests()), "hard voting counts labels"),
        pytest.param(
            lambda: CalibratedClassifierCV(RandomForestClassifier(3), method="temperature", cv=2),
            "_TemperatureScaling",
            marks=pytest.mark.skipif(
                "temperature" not in str(CalibratedClassifierCV._parameter_constraints["method"]),
                reason="this scikit-learn has no temperature scaling",
            ),
        ),
        (
            lambda: VotingClassifier([("line", LogisticRegression())], voting="soft"),
            "member 0 is refused",
        ),
        (lambda: StackingClassifier(forests(), cv=2), "Stacking"),
        (
            lambda: BaggingClassifier(RandomForestClassifier(2), 2, n_jobs=2),
            "split among jobs",
        ),
        (
            lambda: TransformedTargetRegressor(
                RandomForestRegressor(2), func=np.log, inverse_func=lambda y: np.exp(y)
            ),
            "inverse function must be one of NumPy's",
        ),
        (
            lambda: TransformedTargetRegressor(
                RandomForestRegressor(2),
                transformer=FunctionTransformer(
                    np.log, np.exp, inv_kw_args={"dtype": np.float32}, check_inverse=False
                ),
                check_inverse=False,
            ),
            "inv_kw_args",
        ),
        (
            lambda: TransformedTargetRegressor(
                RandomForestRegressor(2), transformer=PowerTransformer()
            ),
            "PowerTransformer",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_compositions_are_refused_by_name(make: Callable[[], Any], words: str) -> None:
    X, y = rows(2)
    with pytest.raises(UnsupportedModelError, match=words):
        bitvec.convert(make().fit(X, y + 1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_members_of_catboost_have_its_bits_or_are_refused(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    catboost = pytest.importorskip("catboost")
    X, y = rows(n_classes)
    member = catboost.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False)
    model = VotingClassifier([("cat", member), *forests(2)], voting="soft").fit(X, y)
    if is_x86():
        asked = np.random.default_rng(1).normal(size=(5000, 4)) * [1, 10, 0.1, 3]
        answers = bitvec.compile(bitvec.convert(model)).predict_proba(asked)
        assert np.array_equal(answers, model.predict_proba(asked))
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(UnsupportedModelError, match="CatBoost, whose exponentials are known"):
        bitvec.convert(model)


def test_labels_that_are_objects_are_saved_as_texts(tmp_path: Path) -> None:
    X, y = rows()
    words = np.array(["no", "so", "yes"], object)[y]
    for name in ("isotonic", "voting of nine", "bagging"):
        model = CLASSIFIERS[name]().fit(X, words)
        composition = bitvec.convert(model)
        bitvec.save(composition, tmp_path / "saved")
        again = bitvec.compile(bitvec.convert(tmp_path / "saved"))
        assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["voting of nine", "voting, weights", "isotonic", "bagging"])
def test_no_row_has_no_answer(name: str) -> None:
    X, y = rows()
    predictor = bitvec.compile(bitvec.convert(CLASSIFIERS[name]().fit(X, y)))
    assert predictor.predict(X[:0]).shape == (0,)
    assert predictor.predict(X[:0]).dtype == predictor.predict(X[:3]).dtype
    found = predictor.predict_proba(X[:0])
    assert (found.shape, found.dtype) == ((0, 3), predictor.predict_proba(X[:3]).dtype)


def test_what_no_ensemble_can_be_is_refused() -> None:
    X, y = rows(2)
    voting = VotingClassifier(forests(), voting="soft").fit(X, y)
    composition = bitvec.convert(voting)
    with pytest.raises(InvalidForestError, match="of a classifier, else predictions"):
        replace(composition, classes=None)
    for weights in ([1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(InvalidForestError, match="must be finite and must not add up to 0"):
            replace(composition, weights=np.array(weights))
    with pytest.raises(InvalidForestError, match="must be finite"):
        Logistic(np.nan, 0.0)
    with pytest.raises(UnsupportedModelError, match="its weights add up to 0"):
        bitvec.convert(voting.set_params(weights=[1, -1]))
    target = REGRESSORS["target, to a range"]().fit(X, X[:, :1])
    with pytest.raises(UnsupportedModelError, match="fit it to y of one axis"):
        bitvec.convert(target)


def test_an_unfitted_ensemble_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        bitvec.convert(VotingClassifier(forests(), voting="soft"))


def test_targets_that_hold_one_sum_refuse_a_composition(tmp_path: Path) -> None:
    X, y = rows()
    composition = bitvec.convert(CLASSIFIERS["sigmoid"]().fit(X, y))
    for name in ("model.onnx", "model.h", "model.sql"):
        with pytest.raises(UnsupportedModelError, match="one sum over trees, got a composition"):
            bitvec.export(composition, tmp_path / name)
    with pytest.raises(TypeError, match=r"composition\.forests"):
        bitvec.prune(composition)


@pytest.mark.filterwarnings("ignore")
def test_curves_are_those_of_scikit_learn_and_scipy() -> None:
    from scipy.special import expit
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=3000) * 30, [0.0, np.inf, -np.inf]])
    for a, b in ((-1.7, 0.3), (2.9, -11.0), (1e-3, 5.0)):
        np.testing.assert_array_equal(Logistic(a, b)(x), expit(-(a * x + b)))
    y = np.sort(rng.random(200))
    model = IsotonicRegression(out_of_bounds="clip").fit(x[:200], y)
    finite = x[np.isfinite(x)]
    curve = Interpolated(model.X_thresholds_, model.y_thresholds_)
    np.testing.assert_array_equal(curve(finite), model.predict(finite))
    near = np.nextafter(model.X_thresholds_, np.inf)
    np.testing.assert_array_equal(curve(near), model.predict(near))


def test_rows_made_for_nodes_are_rows_that_every_member_takes() -> None:
    # Behind a scaler a forest takes values beyond the largest float32; the one beside it does not.
    X, y = load_breast_cancer(return_X_y=True)
    scaled = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0))
    plain = RandomForestClassifier(10, random_state=1)
    model = VotingClassifier([("plain", plain), ("scaled", scaled)], voting="soft").fit(X, y)
    assert bitvec.certify(bitvec.convert(model), model, X).passed


def test_a_pipeline_refuses_what_pipelines_within_its_model_refuse() -> None:
    X, y = rows(2)
    within = make_pipeline(MinMaxScaler(), RandomForestClassifier(**SMALL))
    model = VotingClassifier(
        [("a", within), ("b", GradientBoostingClassifier(**SMALL))], voting="soft"
    )
    for steps in ([MinMaxScaler()], ["passthrough"]):
        piped = make_pipeline(*steps, model).fit(X, y)
        composition = bitvec.convert(piped)
        assert bitvec.certify(composition, piped, X, progress=False).passed
        predictor = bitvec.compile(composition)
        far = np.full((1, 4), 1e300)
        for answer in (piped.predict, predictor.predict):
            with pytest.raises(ValueError):  # noqa: PT011: scikit-learn's, and a subclass of it
                answer(far)


@pytest.mark.parametrize("order", [1, -1])
def test_columns_that_one_member_drops_are_those_of_another(order: int, tmp_path: Path) -> None:
    pd, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = rows(2)
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["c"] = pd.Series(np.array(["01", "1", "2"])[y + (X[:, 2] > 0)], dtype=object)
    texts = OneHotEncoder(handle_unknown="ignore")
    members = [
        (name, make_pipeline(ColumnTransformer(parts), RandomForestClassifier(**SMALL)))
        for name, parts in (
            ("numbers", [("a", MinMaxScaler(), ["a"])]),
            ("texts", [("c", texts, ["c"]), ("b", "passthrough", ["b"])]),
        )
    ]
    model = VotingClassifier(members[::order], voting="soft").fit(frame, y)
    composition = bitvec.convert(model)
    assert bitvec.certify(composition, model, frame, progress=False).passed
    assert bitvec.certify(composition, model, progress=False).passed
    bitvec.save(composition, tmp_path / "saved.safetensors")
    polars.DataFrame(frame.to_dict("list")).write_csv(tmp_path / "rows.csv")
    table = datafiles.read(tmp_path / "rows.csv", inputs=composition.inputs)
    found = bitvec.compile(bitvec.convert(tmp_path / "saved.safetensors")).predict_proba(table.data)
    assert np.array_equal(found, model.predict_proba(frame))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_columns_of_a_frame_are_found_by_name(name: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    X, y = rows(2)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = CLASSIFIERS[name]().fit(frame, y)
    composition = bitvec.convert(model)
    assert composition.inputs.feature_names == ("a", "b", "c", "d")
    expected = model.predict_proba(frame)
    bitvec.save(composition, tmp_path / "saved.safetensors")
    for each in (composition, bitvec.convert(tmp_path / "saved.safetensors")):
        predictor = bitvec.compile(each)
        assert np.array_equal(predictor.predict_proba(frame[["d", "b", "a", "c"]]), expected)
        with pytest.raises(InputError, match="got none named 'a'"):
            predictor.predict_proba(frame.rename(columns={"a": "e"}))


def test_members_may_state_other_dtypes_and_codes_of_a_column() -> None:
    pd = pytest.importorskip("pandas")
    X, y = rows(2)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["d"] = np.array(["x", "y", "z"])[np.arange(len(X)) % 3]
    trees = RandomForestClassifier(**SMALL)

    def piped(*parts: Any) -> Any:
        return make_pipeline(ColumnTransformer([(str(k), *p) for k, p in enumerate(parts)]), trees)

    numbers, scaled = ("passthrough", ["a", "b"]), (StandardScaler(), ["b", "c"])
    codes = [(OrdinalEncoder(categories=[list(order)]), ["d"]) for order in ("xyz", "zyx")]
    for first, second in (
        (piped(numbers), piped(scaled)),
        (piped(scaled), piped(numbers)),
        (piped(numbers, codes[0]), piped(codes[1], scaled)),
    ):
        model = VotingClassifier([("p", first), ("q", second)], voting="soft").fit(frame, y)
        composition = bitvec.convert(model)
        predictor = bitvec.compile(composition)
        assert np.array_equal(predictor.predict_proba(frame), model.predict_proba(frame))
        assert bitvec.certify(composition, model, frame, progress=False).passed
    by_code = np.column_stack([X[:, :3], np.arange(len(X)) % 3])
    for given in (by_code, by_code.tolist()):
        with pytest.raises(InputError, match="other codes of one category"):
            predictor.predict(given)


def test_a_pipeline_that_only_chooses_columns_is_certified() -> None:
    X, y = rows(2)
    for trees in (RandomForestClassifier(**SMALL), GradientBoostingClassifier(**SMALL)):
        chosen = ColumnTransformer([("kept", "passthrough", [1, 0])])
        model = make_pipeline(chosen, trees).fit(X, y)
        for given in ((), (X,)):
            assert bitvec.certify(bitvec.convert(model), model, *given, progress=False).passed
