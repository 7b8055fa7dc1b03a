"""Laws of converting xgboost models: the forest answers as the library does, bit for bit."""

from __future__ import annotations

import copy
import json
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.converters.xgboost.oracle import oracle_of
from bitvec.converters.xgboost.read import convert
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation, set_codes
from bitvec.core.output import PostTransform
from bitvec.errors import (
    FileFormatError,
    InputError,
    InvalidForestError,
    MissingLibraryError,
    UnsupportedModelError,
)
from bitvec.runtime.predict import tables

xgb = pytest.importorskip("xgboost")

from tests.models.samples import of_codes, small  # noqa: E402
from tests.models.xgboost import (  # noqa: E402
    MODELS,
    OBJECTIVES,
    VERSION,
    Model,
    of_frame,
    train,
    trained,
)

datasets = pytest.importorskip("sklearn.datasets")


BOOSTERS = [name for name, about in MODELS.items() if not about.wrapper]
WRAPPERS = [name for name, about in MODELS.items() if about.wrapper]
CATEGORICAL = [name for name, about in MODELS.items() if about.categories]


def booster(rounds: int = 5, label: str = "number", **parameters: Any) -> Any:
    return train(Model(parameters, label, rounds))


@pytest.fixture(params=MODELS)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, Forest]:
    model = trained(request.param)
    return model, convert(model)


def rows_that_decide(forest: Forest) -> np.ndarray:
    """Rows of the sample, the same with thresholds and their two neighbours, and of all codes."""
    rng = np.random.default_rng(1)
    base = small().X[:60].astype(np.float32)
    blocks = [base, of_codes(small(), 4).astype(np.float32)]
    node = rng.integers(0, max(forest.n_nodes, 1), (len(base), 4))
    at = np.arange(len(base))[:, None]
    for toward in (None, -np.inf, np.inf):
        block = base.copy()
        if forest.n_nodes:
            b = forest.tests.b[node]
            near = b if toward is None else np.nextafter(b, np.float32(toward))
            block[at, forest.tests.feature[node]] = near
        blocks.append(block)
    rows = np.concatenate([*blocks, np.zeros_like(base[:1]), np.full_like(base[:1], np.nan)])
    rows[-3] = -0.0
    return rows


def assert_equal_bits(forest: Forest, oracle: Any, rows: np.ndarray) -> None:
    exits = reference.exit_leaves(forest, rows)
    raw = reference.accumulate(forest, rows, exits)
    answer = oracle.raw(rows)
    assert raw.dtype == answer.dtype == np.float32
    np.testing.assert_array_equal(raw, answer)
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    leaf_id = forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
    np.testing.assert_array_equal(leaf_id, oracle.leaf_ids(rows))


def test_raw_scores_and_leaf_ids_equal_those_of_the_library(fitted: tuple[Any, Forest]) -> None:
    model, forest = fitted
    assert_equal_bits(forest, oracle_of(model), rows_that_decide(forest))


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
def test_a_saved_file_gives_the_same_forest(
    fitted: tuple[Any, Forest], suffix: str, tmp_path: Path
) -> None:
    model, direct = fitted
    path = tmp_path / f"model{suffix}"
    model.save_model(path)
    # Content decides, not the suffix.
    path = path.rename(tmp_path / "model.of.odd.name")
    forest = convert(path)
    assert_equal_bits(forest, oracle_of(path), rows_that_decide(forest))
    for name in ("lo", "mid", "hi", "leaf_ptr"):
        np.testing.assert_array_equal(
            getattr(forest.bitvectors, name), getattr(direct.bitvectors, name)
        )
    np.testing.assert_array_equal(forest.tests.b, direct.tests.b)
    np.testing.assert_array_equal(forest.leaves.v, direct.leaves.v)
    np.testing.assert_array_equal(forest.output.base_score, direct.output.base_score)
    assert forest.output.iteration is not None
    np.testing.assert_array_equal(forest.output.iteration, direct.output.iteration)


@pytest.mark.parametrize("name", WRAPPERS)
def test_predictions_of_wrappers_are_labels_or_transformed_scores(name: str) -> None:
    model, forest = trained(name), convert(trained(name))
    rows = rows_that_decide(forest)
    raw = reference.raw(forest, rows)
    assert forest.output.is_classifier is ("Classifier" in MODELS[name].wrapper)
    if not forest.output.is_classifier:
        assert_transformed(forest, raw, model.predict(rows))
        return
    np.testing.assert_array_equal(transforms.predictions(forest.output, raw), model.predict(rows))
    probabilities = transforms.probabilities(forest.output, raw)
    several = len(probabilities) > 1
    got = np.stack([p[:, 1] for p in probabilities], axis=1) if several else probabilities[0]
    # The exponential is not the same routine: a few places of float32 at a value up to 1.
    np.testing.assert_allclose(got, model.predict_proba(rows), rtol=0, atol=5e-7)


@pytest.mark.parametrize("name", BOOSTERS)
def test_predictions_of_boosters_are_labels_or_transformed_scores(name: str) -> None:
    model, forest = trained(name), convert(trained(name))
    rows = rows_that_decide(forest)
    raw = reference.raw(forest, rows)
    answer = model.predict(xgb.DMatrix(rows, nthread=1), validate_features=False)
    if MODELS[name].objective == "multi:softmax":
        np.testing.assert_array_equal(transforms.predictions(forest.output, raw), answer)
    else:
        assert_transformed(forest, raw, answer)


def assert_transformed(forest: Forest, raw: np.ndarray, answer: np.ndarray) -> None:
    got = transforms.transform(forest.output, raw)
    answer = answer.reshape(got.shape)
    if forest.output.post_transform is PostTransform.IDENTITY:
        np.testing.assert_array_equal(got, answer)
    else:
        # One exponential in a thousand of the C library has another last bit than the rounded one,
        # and a division by a sum can make two places of it.
        assert ulps(got, answer) <= (2 if forest.n_outputs > 1 else 1)


def ulps(got: np.ndarray, want: np.ndarray) -> int:
    """The largest distance between answers, which are not negative, in places of float32."""
    assert got.dtype == want.dtype == np.float32
    return int(np.max(np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32))))


def test_inplace_prediction_has_the_same_bits_as_the_forest() -> None:
    model = booster(20)
    forest = convert(model)
    rows = rows_that_decide(forest)
    np.testing.assert_array_equal(
        reference.raw(forest, rows)[:, 0],
        model.inplace_predict(rows, predict_type="margin", validate_features=False),
    )


def test_a_wrapper_stops_at_its_best_iteration_and_a_booster_does_not(tmp_path: Path) -> None:
    model = trained("stopped")
    whole = model.get_booster().num_boosted_rounds()
    assert convert(model).n_trees == model.best_iteration + 1
    assert convert(model.get_booster()).n_trees == whole
    model.save_model(tmp_path / "wrapper.json")
    model.get_booster().save_model(tmp_path / "booster.json")
    assert convert(tmp_path / "wrapper.json").n_trees == model.best_iteration + 1
    assert convert(tmp_path / "booster.json").n_trees == whole


def test_the_sentinel_of_a_wrapper_is_missing() -> None:
    forest = convert(trained("classifier with a sentinel"))
    assert forest.inputs.missing_sentinel == 0.0
    assert np.all(forest.tests.missing_rule == MissingRule.NAN_OR_SENTINEL)
    plain = convert(trained("classifier"))
    assert plain.inputs.missing_sentinel is None
    assert np.all(plain.tests.missing_rule == MissingRule.NAN)


def test_targets_are_groups_with_labels_of_their_own() -> None:
    assert convert(trained("classifier of labels")).output.groups == (1, 1)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_the_wrapper_decides_whether_there_are_classes(suffix: str, tmp_path: Path) -> None:
    regressor = trained("regressor of probabilities")
    for model, classifies in ((regressor, False), (trained("classifier by shares"), True)):
        path = tmp_path / f"model.{suffix}"
        model.save_model(path)
        assert convert(model).output.is_classifier is classifies
        assert convert(path).output.is_classifier is classifies
    assert convert(regressor.get_booster()).output.is_classifier


def test_wrappers_answer_in_the_shape_of_their_probabilities_or_are_refused() -> None:
    X = small().X
    y = np.random.default_rng(0).integers(0, 2, len(X))
    alone = xgb.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, 0 * y)
    forest = convert(alone)
    predictor = bitvec.compile(forest)
    assert np.array_equal(predictor.predict_proba(X), alone.predict_proba(X))
    assert np.array_equal(predictor.predict(X), alone.predict(X))
    certificate = bitvec.certify(forest, alone, X)
    assert certificate.passed, str(certificate)
    options = {"n_estimators": 2, "n_jobs": 1, "num_class": 2}
    for kind, objective, why in (
        (xgb.XGBClassifier, "multi:softprob", "two truth values a row"),
        (xgb.XGBRegressor, "multi:softmax", "must predict values"),
    ):
        with pytest.raises(UnsupportedModelError, match=why):
            convert(kind(objective=objective, **options).fit(X, y))


def test_a_dart_from_a_probability_of_one_half_passes_its_certificate() -> None:
    X = small().X
    y = np.random.default_rng(0).integers(0, 2, len(X))
    options = {"n_estimators": 3, "max_depth": 2, "n_jobs": 1, "base_score": 0.5}
    model = xgb.XGBClassifier(booster="dart", **options).fit(X, y)
    certificate = bitvec.certify(convert(model), model, X)
    assert certificate.passed, str(certificate)


# Splits on categories.


@pytest.mark.parametrize("name", CATEGORICAL)
def test_splits_on_categories_are_one_code_or_sets(name: str) -> None:
    forest = convert(trained(name))
    is_set = forest.tests.kind == Kind.SET
    sizes = [set_codes(forest.tests, node).size for node in np.flatnonzero(is_set).tolist()]
    assert max(sizes) == 1 if name == "one category" else max(sizes) > 1
    assert np.any(~is_set)
    assert forest.inputs.categories is None


def test_a_certificate_shows_every_code_of_every_split_on_categories() -> None:
    model, X = trained("both"), of_codes(small()).astype(np.float32)
    certificate = bitvec.certify(bitvec.convert(model), model, X, engine="reference")
    assert certificate.passed
    assert certificate.parts[:3] == ("leaf ids", "leaf values", "raw scores")
    assert certificate.n_covered == certificate.n_reachable > 0


def categorical_document() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A stump on a category, its booster and its tree."""
    X = np.arange(200, dtype=np.float32)[:, None] % 3
    rows = xgb.DMatrix(X, X[:, 0] == 1, feature_types=["c"], enable_categorical=True)
    model = xgb.train({"max_depth": 1, "nthread": 1}, rows, 1)
    document = json.loads(model.save_raw("json"))
    inner = document["learner"]["gradient_booster"]["model"]
    assert inner["trees"][0]["categories"] == [1]
    return document, inner, inner["trees"][0]


def test_codes_that_float32_skips_are_in_no_set(tmp_path: Path) -> None:
    document, _, tree = categorical_document()
    path = tmp_path / "model.json"
    top = 2**24
    X = np.array([[top - 2], [top - 1], [top], [top + 2], [1], [np.nan]], np.float32)
    for categories in ([1, top - 1], [top], [top - 1, top + 2, 1], [top, top]):
        tree["categories"] = categories
        tree["categories_sizes"] = [len(categories)]
        path.write_text(json.dumps(document))
        assert_equal_bits(convert(path), oracle_of(path), X)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_the_categories_of_a_frame_are_code_books(suffix: str, tmp_path: Path) -> None:
    model, table = of_frame()
    path = tmp_path / f"model.{suffix}"
    model.save_model(path)
    for forest in (convert(model), convert(path)):
        assert forest.inputs.feature_names == ("text", "plain", "number")
        assert forest.inputs.categories == (("z", "north", "", "a b"), None, (20, 10, -5))
        assert np.any(forest.tests.kind == Kind.SET)
        X = tables.rows(table, forest.inputs, forest.dtype)
        want = model.predict(table, output_margin=True)
        np.testing.assert_array_equal(reference.raw(forest, X)[:, 0], want)
        # A frame with its categories in another order means the same rows.
        other = table.assign(text=table["text"].cat.reorder_categories(["", "a b", "z", "north"]))
        np.testing.assert_array_equal(tables.rows(other, forest.inputs, forest.dtype), X)
        np.testing.assert_array_equal(model.predict(other, output_margin=True), want)
        assert_equal_bits(forest, oracle_of(model), X)


@pytest.mark.parametrize("unseen", ["zzz", "yyy"])
def test_a_category_that_was_not_trained_on_is_refused_and_in_no_set_if_asked(unseen: str) -> None:
    """xgboost refuses "zzz", which no category exceeds, and before 3.3 takes "yyy" for "z"."""
    model, table = of_frame()
    forest = convert(model)
    frame = table.assign(text=table["text"].astype(object).fillna(unseen).astype("category"))
    with pytest.raises(InputError, match=f"'text' of .*got '{unseen}'.*refuses_unseen"):
        tables.rows(frame, forest.inputs, forest.dtype)
    if unseen == "zzz" or VERSION >= (3, 3):
        with pytest.raises(xgb.core.XGBoostError, match="not in the training set"):
            model.predict(frame)
    else:
        np.testing.assert_array_equal(
            model.predict(frame), model.predict(frame.replace({"text": {unseen: "z"}}))
        )
    lenient = replace(forest, inputs=replace(forest.inputs, refuses_unseen=False))
    with pytest.warns(UserWarning, match="no category for"):
        X = tables.rows(frame, lenient.inputs, lenient.dtype)
    assert np.all(X[::17, 0] == -1)
    # As a code the library takes it, and sends it where the forest does.
    assert_equal_bits(lenient, oracle_of(model), X)


def test_a_book_beyond_ascii_is_left_out_and_codes_still_answer() -> None:
    """xgboost cuts UTF-8 bytes by counting characters, so the book is not the frame's."""
    pandas = pytest.importorskip("pandas")
    values = pandas.Categorical(np.resize(["é", "x y", "z"], 90))
    table = pandas.DataFrame(
        {"accent": values, "plain": pandas.Categorical(np.resize(list("ab"), 90))}
    )
    model = xgb.XGBRegressor(n_estimators=3, n_jobs=1, enable_categorical=True)
    model.fit(table, np.resize([0.0, 1, 5], 90))
    forest = convert(model)
    assert forest.inputs.categories == (None, ("a", "b"))
    X = np.stack([table[name].cat.codes for name in table], axis=1).astype(np.float32)
    np.testing.assert_array_equal(
        reference.raw(forest, X)[:, 0], model.predict(table, output_margin=True)
    )
    with pytest.raises(InputError, match="no categories"):
        tables.rows(table, forest.inputs, forest.dtype)


HOSTILE_CATEGORIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "negative code": lambda t, m: t.update(categories=[-1]),
    "huge code": lambda t, m: t.update(categories=[2**40]),
    "fractional code": lambda t, m: t.update(categories=[0.5]),
    "no codes": lambda t, m: t.update(categories_sizes=[0]),
    "codes past their end": lambda t, m: t.update(categories_sizes=[2]),
    "segment past its end": lambda t, m: t.update(categories_segments=[7]),
    "overflowing segment": lambda t, m: t.update(categories_segments=[2**63 - 1]),
    "node past the tree": lambda t, m: t.update(categories_nodes=[3]),
    "node left out": lambda t, m: t.update(categories_nodes=[1]),
    "no nodes": lambda t, m: t.update(
        categories_nodes=[], categories_segments=[], categories_sizes=[]
    ),
    "node twice": lambda t, m: t.update(
        categories_nodes=[0, 0], categories_segments=[0, 0], categories_sizes=[1, 1]
    ),
    "short segments": lambda t, m: t.update(categories_segments=[]),
    "missing member": lambda t, m: t.pop("categories"),
    "unknown split type": lambda t, m: t["split_type"].__setitem__(0, 2),
    "cats is a list": lambda t, m: m.update(cats=[]),
    "cats without enc": lambda t, m: m.update(cats={}),
    "too many books": lambda t, m: m["cats"].update(enc=[{"offsets": [], "values": []}] * 2),
    "book is a number": lambda t, m: m["cats"].update(enc=[3]),
    "book of nothing": lambda t, m: m["cats"].update(enc=[{}]),
    "offsets past the text": lambda t, m: m["cats"].update(
        enc=[{"offsets": [0, 9], "values": [97]}]
    ),
    "falling offsets": lambda t, m: m["cats"].update(
        enc=[{"offsets": [0, 2, 1], "values": [97, 98]}]
    ),
    "offsets that skip text": lambda t, m: m["cats"].update(
        enc=[{"offsets": [1, 2], "values": [97, 98]}]
    ),
    "a letter of 300": lambda t, m: m["cats"].update(enc=[{"offsets": [0, 1], "values": [300]}]),
    "one category twice": lambda t, m: m["cats"].update(
        enc=[{"offsets": [0, 1, 2], "values": [97, 97]}]
    ),
    "categories of floats": lambda t, m: m["cats"].update(enc=[{"type": 11, "values": [0.5]}]),
}


@pytest.mark.parametrize("edit", HOSTILE_CATEGORIES.values(), ids=HOSTILE_CATEGORIES)
def test_hostile_categories_are_refused_in_one_sentence(
    edit: Callable[[dict[str, Any], dict[str, Any]], Any], tmp_path: Path
) -> None:
    document, inner, tree = categorical_document()
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    convert(path)
    edit(tree, inner)
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match=r"hostile\.json: .*must") as caught:
        convert(path)
    assert "\n" not in str(caught.value)


def test_feature_names_statistics_and_metadata_are_kept() -> None:
    frame, y = datasets.load_wine(return_X_y=True, as_frame=True)
    model = xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(frame, y)
    forest = convert(model)
    source = forest.source
    assert source is not None
    assert forest.inputs.feature_names == tuple(frame.columns)
    assert source.library == "xgboost"
    assert source.version == xgb.__version__
    assert source.model == "multi:softprob"
    table = model.get_booster().trees_to_dataframe()
    assert source.node_id is not None
    assert source.node_cover is not None
    assert source.gain is not None
    inner = table[table.Feature != "Leaf"].set_index(["Tree", "Node"])
    keys = list(zip(forest.bitvectors.tree_of_node, source.node_id, strict=True))
    # The table prints six or so digits.
    np.testing.assert_allclose(inner.Cover.loc[keys], source.node_cover, rtol=1e-5)
    np.testing.assert_allclose(inner.Gain.loc[keys], source.gain, rtol=1e-5)
    document = json.loads(json.dumps(source.metadata))
    assert document["learner"]["objective"]["name"] == "multi:softprob"
    assert "trees" not in document["learner"]["gradient_booster"]["model"]


def test_nodes_read_as_the_library_compares() -> None:
    forest = convert(booster(1, max_depth=2))
    assert forest.dtype == np.float32
    assert np.all(forest.tests.relation == Relation.GREATER_EQUAL)
    assert forest.output.base_first


def test_deleted_nodes_are_left_out() -> None:
    model = trained("pruned")
    document = json.loads(model.save_raw("json"))
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    total = sum(int(tree["tree_param"]["num_nodes"]) for tree in trees)
    assert deleted > 0
    forest = convert(model)
    assert forest.n_nodes + forest.n_leaves == total - deleted


LINKED = {
    "reg:squarederror": PostTransform.IDENTITY,
    "reg:squaredlogerror": PostTransform.IDENTITY,
    "reg:logistic": PostTransform.SIGMOID,
    "reg:pseudohubererror": PostTransform.IDENTITY,
    "reg:absoluteerror": PostTransform.IDENTITY,
    "reg:gamma": PostTransform.EXPONENTIAL,
    "reg:tweedie": PostTransform.EXPONENTIAL,
    "binary:logistic": PostTransform.SIGMOID,
    "binary:logitraw": PostTransform.IDENTITY,
    "binary:hinge": PostTransform.HINGE,
    "count:poisson": PostTransform.EXPONENTIAL,
    "survival:cox": PostTransform.EXPONENTIAL,
    "survival:aft": PostTransform.EXPONENTIAL,
    "rank:pairwise": PostTransform.IDENTITY,
    "rank:ndcg": PostTransform.IDENTITY,
    "rank:map": PostTransform.IDENTITY,
    "multi:softprob": PostTransform.SOFTMAX,
    "multi:softmax": PostTransform.SOFTMAX,
}


def untrained(objective: str) -> dict[str, Any]:
    """The document of a model without trees."""
    given = {"objective": objective, "base_score": 0.5}
    model = booster(0, OBJECTIVES[objective].label, **given)
    document = json.loads(model.save_raw("json"))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("objective", LINKED)
def test_base_score_and_transform_follow_the_objective(objective: str, tmp_path: Path) -> None:
    document = untrained(objective)
    path = tmp_path / "model.json"
    rng = np.random.default_rng(0)
    several = 12 if objective in ("binary:logistic", "count:poisson") else 1
    rows = xgb.DMatrix(np.zeros((1, 4), np.float32), nthread=1)
    # Older versions do not clip the base scores of logistic objectives, which is refused.
    clips = LINKED[objective] is not PostTransform.SIGMOID or VERSION >= (3, 2)
    extreme = (1e-7, 1.0) if clips else ()
    for base in (0.5, *extreme, *rng.random(several).astype(np.float32)):
        count = 3 if objective.startswith("multi:") else 1
        document["learner"]["learner_model_param"]["base_score"] = json.dumps([float(base)] * count)
        path.write_text(json.dumps(document))
        forest = convert(path)
        library = xgb.Booster({"nthread": 1}, model_file=str(path))
        raw = library.predict(rows, output_margin=True, validate_features=False).reshape(1, -1)
        # As bits: 0.5 links to -0.0.
        np.testing.assert_array_equal(
            forest.output.base_score.view(np.uint32), raw.ravel().view(np.uint32)
        )
        answer = library.predict(rows, validate_features=False)
        if objective != "multi:softmax":
            # Another routine for exp: a few units in the last place of float32.
            np.testing.assert_allclose(
                transforms.transform(forest.output, raw).ravel(), answer.ravel(), rtol=5e-7
            )
    assert forest.output.post_transform is LINKED[objective]


@pytest.mark.parametrize("name", ["dart", "forests", "reg:gamma, base score estimated"])
def test_a_range_of_iterations_converts_as_a_slice_of_the_booster(name: str) -> None:
    model, X = trained(name), small().X
    for first, end in ((0, 3), (2, 5), (4, 5)):
        forest = convert(model[first:end])
        assert forest.output.iteration is not None
        np.testing.assert_array_equal(np.unique(forest.output.iteration), np.arange(end - first))
        rows = xgb.DMatrix(X, nthread=1)
        want = model.predict(
            rows, output_margin=True, iteration_range=(first, end), validate_features=False
        )
        raw = reference.raw(forest, X.astype(np.float32))
        np.testing.assert_array_equal(raw[:, 0], want)


def test_feature_types_are_kept(tmp_path: Path) -> None:
    names, types = ["a", "b b", "\u00e9", "d"], ["c", "int", "q", "float"]
    rows = xgb.DMatrix(
        np.nan_to_num(small().X),
        small().y,
        feature_names=names,
        feature_types=types,
        enable_categorical=True,
    )
    model = xgb.train({"nthread": 1, "max_depth": 3}, rows, 2)
    for suffix in ("json", "ubj"):
        model.save_model(tmp_path / f"model.{suffix}")
        forest = convert(tmp_path / f"model.{suffix}")
        assert forest.inputs.feature_names == tuple(names)
        assert forest.source is not None
        assert forest.source.metadata["learner"]["feature_types"] == types


def test_base_score_may_be_scalar_or_vector(tmp_path: Path) -> None:
    document = json.loads(trained("dart of classes").save_raw("json"))
    X = small().X.astype(np.float32)
    path = tmp_path / "model.json"
    for text in ("5E-1", "[5E-1,5E-1,5E-1]", "[1E-1,-2.5E0,3E0]"):
        document["learner"]["learner_model_param"]["base_score"] = text
        path.write_text(json.dumps(document))
        assert_equal_bits(convert(path), oracle_of(path), X[:20])


def test_a_document_without_the_newer_members_is_read(tmp_path: Path) -> None:
    model = booster(4, "class", objective="multi:softprob", base_score=0.5)
    document = json.loads(model.save_raw("json"))
    learner = document["learner"]
    new = convert(model)
    for name in ("feature_names", "feature_types", "attributes"):
        del learner[name]
    inner = learner["gradient_booster"]["model"]
    for name in ("cats", "iteration_indptr"):
        del inner[name]
    del inner["gbtree_model_param"]["num_parallel_tree"]
    del learner["learner_model_param"]["num_target"]
    learner["learner_model_param"]["base_score"] = "5E-1"
    for tree in inner["trees"]:
        tree["default_left"] = [bool(left) for left in tree["default_left"]]
        for name in [name for name in tree if name.startswith("categories")] + ["split_type"]:
            del tree[name]
    document["version"] = [1, 0, 0]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document, indent=1))
    old = convert(path)
    X = small().X.astype(np.float32)
    np.testing.assert_array_equal(reference.raw(old, X), reference.raw(new, X))
    assert old.output.iteration is not None
    np.testing.assert_array_equal(old.output.iteration, new.output.iteration)


def test_vector_leaves_from_before_3_2_convert_and_do_not_reach_a_library_that_crashes(
    tmp_path: Path,
) -> None:
    model = trained("vectors")
    new, X = convert(model), small().X.astype(np.float32)
    document = json.loads(model.save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        width = int(tree["tree_param"]["size_leaf_vector"])
        if VERSION < (3, 2):  # such leaves already
            continue
        weights = np.reshape(tree.pop("leaf_weights"), (-1, width))
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        vectors = np.zeros((len(left), width))
        vectors[left < 0] = weights[right[left < 0]]
        tree["base_weights"] = vectors.ravel().tolist()
        tree["right_children"] = np.where(left < 0, -1, right).tolist()
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    old = convert(path)
    np.testing.assert_array_equal(reference.raw(old, X), reference.raw(new, X))
    if VERSION >= (3, 2):
        with pytest.raises(UnsupportedModelError, match=r"before 3\.2"):
            oracle_of(path)


def test_files_are_read_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booster(2).save_model(tmp_path / "model.ubj")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert convert(str(tmp_path / "model.ubj")).n_trees == 2
    with pytest.raises(MissingLibraryError, match=r"bitvec-trees\[xgboost\]"):
        oracle_of(tmp_path / "model.ubj")


def test_an_empty_batch_has_empty_answers() -> None:
    oracle = oracle_of(trained("classifier"))
    empty = np.zeros((0, 4), np.float32)
    assert oracle.raw(empty).shape == (0, 3)
    assert oracle.leaf_ids is not None
    assert oracle.leaf_ids(empty).shape == (0, 15)
    assert not oracle.accepts_infinite


def test_a_linear_booster_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        convert(booster(1, booster="gblinear"))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Booster"):
        convert(object())
    for content in (b"", b"binf\0\0", b"tree\n", b"\0\0\0?\x04\0\0\0", b"{", b"{}", b'{"a": 1}'):
        path = tmp_path / "model.bin"
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"model\.bin"):
            convert(path)
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "absent.json")


DOCUMENT = json.loads(booster(2, max_depth=2).save_raw("json"))
Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], Any]
HOSTILE: dict[str, Edit] = {
    "left child out of range": lambda t, m, l: t["left_children"].__setitem__(0, 10**6),
    "right child below -1": lambda t, m, l: t["right_children"].__setitem__(0, -7),
    "one child": lambda t, m, l: t["right_children"].__setitem__(0, -1),
    "self cycle": lambda t, m, l: t["left_children"].__setitem__(1, 1),
    "cycle to the root": lambda t, m, l: t["left_children"].__setitem__(1, 0),
    "shared child": lambda t, m, l: t["left_children"].__setitem__(1, t["left_children"][2]),
    "float child": lambda t, m, l: t["left_children"].__setitem__(0, 1.0),
    "huge child": lambda t, m, l: t["left_children"].__setitem__(0, 2**64 + 1),
    "short array": lambda t, m, l: t["split_conditions"].pop(),
    "long array": lambda t, m, l: t["sum_hessian"].append(1.0),
    "huge num_nodes": lambda t, m, l: t["tree_param"].update(num_nodes="999999999999"),
    "negative num_nodes": lambda t, m, l: t["tree_param"].update(num_nodes="-1"),
    "trees out of order": lambda t, m, l: t.update(id=0),
    "empty tree": lambda t, m, l: t["tree_param"].update(num_nodes="0"),
    "digits of another script": lambda t, m, l: t["tree_param"].update(num_nodes="\u0667"),
    "NaN threshold": lambda t, m, l: t["split_conditions"].__setitem__(0, float("nan")),
    "feature out of range": lambda t, m, l: t["split_indices"].__setitem__(0, 10),
    "negative feature": lambda t, m, l: t["split_indices"].__setitem__(0, -1),
    "missing array": lambda t, m, l: t.pop("split_indices"),
    "text for a list": lambda t, m, l: t.update(left_children="1 2 3"),
    "list of texts": lambda t, m, l: t.update(split_conditions=["1"] * 7),
    "ragged list": lambda t, m, l: t.update(split_conditions=[[1], [1, 2]]),
    "nested list": lambda t, m, l: t.update(split_conditions=[[0.0]] * 7),
    "null in a list": lambda t, m, l: t["split_conditions"].__setitem__(0, None),
    "default_left 2": lambda t, m, l: t["default_left"].__setitem__(0, 2),
    "wide leaves": lambda t, m, l: t["tree_param"].update(size_leaf_vector="1000000000"),
    "tree is a number": lambda t, m, l: m["trees"].__setitem__(0, 5),
    "tree_param is a list": lambda t, m, l: t.update(tree_param=[]),
    "no trees": lambda t, m, l: m.pop("trees"),
    "num_trees": lambda t, m, l: m["gbtree_model_param"].update(num_trees="3"),
    "tree_info": lambda t, m, l: m["tree_info"].__setitem__(0, 1),
    "short tree_info": lambda t, m, l: m["tree_info"].pop(),
    "iteration_indptr": lambda t, m, l: m.update(iteration_indptr=[0, 2, 1, 2]),
    "huge num_class": lambda t, m, l: l["learner_model_param"].update(num_class="999999999999"),
    "huge num_feature": lambda t, m, l: l["learner_model_param"].update(num_feature="9" * 18),
    "no learner_model_param": lambda t, m, l: l.pop("learner_model_param"),
    "base_score": lambda t, m, l: l["learner_model_param"].update(base_score="[1,2]"),
    "base_score NaN": lambda t, m, l: l["learner_model_param"].update(base_score="[NaN]"),
    "base_score nested": lambda t, m, l: l["learner_model_param"].update(base_score="[" * 10**5),
    "base_score overflow": lambda t, m, l: l["learner_model_param"].update(base_score="[1e99]"),
    "feature names": lambda t, m, l: l.update(feature_names=["a", "a"]),
    "names of numbers": lambda t, m, l: l.update(feature_names=[1] * 10),
    "repeated names": lambda t, m, l: l.update(feature_names=["a"] * 10),
    "attributes": lambda t, m, l: l.update(attributes=[]),
    "wrapper text": lambda t, m, l: l.update(attributes={"scikit_learn": "["}),
    "wrapper labels": lambda t, m, l: l.update(
        attributes={"scikit_learn": json.dumps({"classes_": [[1], {}]})}
    ),
    "best_iteration": lambda t, m, l: l.update(
        attributes={"scikit_learn": "{}", "best_iteration": "7"}
    ),
    "unknown objective": lambda t, m, l: l["objective"].update(name="reg:mine"),
    "unknown booster": lambda t, m, l: l["gradient_booster"].update(name="forest"),
    "dart without weights": lambda t, m, l: l["gradient_booster"].update(
        name="dart", gbtree={"model": m}
    ),
}


@pytest.mark.parametrize("edit", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_in_one_sentence_that_names_them(
    edit: Edit, tmp_path: Path
) -> None:
    document = copy.deepcopy(DOCUMENT)
    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    edit(model["trees"][1], model, learner)
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    tracemalloc.start()
    with pytest.raises(
        (FileFormatError, InvalidForestError, UnsupportedModelError), match=r"hostile\.json: "
    ) as caught:
        convert(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert peak < 2_000_000


def test_a_document_left_alone_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sound.json"
    path.write_text(json.dumps(DOCUMENT))
    assert convert(path).n_trees == 2


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":' + b"[" * 10**6,
        b"{U\x01a" + b"[" * 10**6,
        b'{"learner": ' + b"9" * 10**5 + b"}",
        b'{"learner": "\xff"}',
        json.dumps(DOCUMENT).encode()[:-20],
    ],
    ids=["nested JSON", "nested UBJSON", "long integer", "bad text", "truncated"],
)
def test_hostile_syntax_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hostile.ubj"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"hostile\.ubj: .*must"):
        convert(path)


def test_an_unfitted_wrapper_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="XGBRegressor: the model must be fitted"):
        convert(xgb.XGBRegressor())


def test_a_booster_without_trees_converts_only_with_a_base_score_of_its_own() -> None:
    X = np.random.default_rng(0).random((50, 3), np.float32)
    rows = xgb.DMatrix(X, (X[:, 0] > 0.7).astype(int))
    fixed = xgb.train({"objective": "binary:logistic", "base_score": 0.2}, rows, 0)
    assert np.array_equal(
        bitvec.compile(convert(fixed)).raw(X)[:, 0],
        fixed.predict(rows, output_margin=True),
    )
    with pytest.raises(UnsupportedModelError, match="must have trees"):
        convert(xgb.train({"objective": "binary:logistic"}, rows, 0))


def test_rows_of_another_width_do_not_reach_the_library() -> None:
    X = np.random.default_rng(0).random((50, 3), np.float32)
    model = xgb.XGBRegressor(n_estimators=2).fit(X, X[:, 0])
    answers = oracle_of(model)
    for ask in (answers.raw, answers.leaf_ids):
        with pytest.raises(InputError, match="3 features"):
            ask(np.zeros((4, 5), np.float32))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda d: d["learner"].update(new_links=1), UnsupportedModelError, "new_links"),
        (lambda d: trees_of(d)[0].update(leaf_linear=[]), UnsupportedModelError, "leaf_linear"),
        (lambda d: d.update(version=[9, 0, 0]), UnsupportedModelError, "at most version 3"),
        (
            lambda d: trees_of(d)[0]["split_conditions"].__setitem__(0, 1.000000059604644775390626),
            FileFormatError,
            "half way between two",
        ),
        (
            lambda d: d["learner"]["learner_model_param"].update(base_score="16777217.000000001"),
            FileFormatError,
            "half way between two",
        ),
        (
            lambda d: trees_of(d)[0]["split_conditions"].__setitem__(0, 3.4028235677973366e38),
            FileFormatError,
            "half way between two",
        ),
    ],
)
def test_what_another_writer_may_mean_otherwise_is_refused(change, error, says, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    booster = xgb.train({"max_depth": 2, "nthread": 1}, xgb.DMatrix(X, X[:, 0]), 1)
    document = json.loads(booster.save_raw("json"))
    change(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(error, match=says):
        bitvec.convert(path)


def trees_of(document):
    return document["learner"]["gradient_booster"]["model"]["trees"]


def test_a_booster_that_was_not_trained_is_refused_in_one_sentence():
    with pytest.raises(UnsupportedModelError, match="must be trained"):
        bitvec.convert(xgb.Booster({"objective": "binary:logistic"}))
