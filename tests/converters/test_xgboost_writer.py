"""Laws of writing xgboost models: xgboost predicts from them what the forest predicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proof_laws import some_in_full
from strategies import AXIS, SET, forests, rows

import bitvec
from bitvec import files
from bitvec.converters import ubjson
from bitvec.converters.xgboost import base_scores
from bitvec.converters.xgboost.document import parse, plain
from bitvec.converters.xgboost.objectives import OBJECTIVES
from bitvec.converters.xgboost.read import convert
from bitvec.converters.xgboost.write import save, to_document, to_xgboost
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation
from bitvec.core.output import Aggregate, PostTransform
from bitvec.errors import InputError, UnsupportedModelError

xgb = pytest.importorskip("xgboost")

from tests.models.samples import of_codes, small  # noqa: E402
from tests.models.xgboost import MODELS, VECTORS, Model, of_frame, train, trained  # noqa: E402

datasets = pytest.importorskip("sklearn.datasets")


def hard_rows() -> Array:
    """Rows of the sample, and such with every kind of code."""
    return np.concatenate([of_codes(small()), small().X]).astype(np.float32)


BOOSTERS = [name for name, about in MODELS.items() if not about.wrapper]
WRAPPERS = [name for name, about in MODELS.items() if about.wrapper]
SENTINELS = [name for name in WRAPPERS if "missing" in MODELS[name].parameters]
POISSON = "count:poisson, base score estimated"
PLAIN = "reg:squarederror, base score estimated"


def loaded(forest: Forest, folder: Path, suffix: str = "ubj") -> Any:
    path = save(forest, folder / f"model.{suffix}")
    booster = xgb.Booster({"nthread": 1}, model_file=path)
    assert to_xgboost(forest).save_raw("ubj") == booster.save_raw("ubj")
    return booster


def margins(booster: Any, X: Array, forest: Forest) -> Array:
    D = xgb.DMatrix(X, nthread=1)
    answer = booster.predict(D, output_margin=True, validate_features=False)
    return np.asarray(answer).reshape(len(X), forest.n_outputs)


@pytest.mark.parametrize("name", some_in_full([(name,) for name in BOOSTERS], one_in=2))
def test_what_is_converted_and_written_back_predicts_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = trained(name)
    forest = convert(model)
    D = xgb.DMatrix(hard_rows(), nthread=1)
    kinds: list[dict[str, bool]] = [{}, {"output_margin": True}, {"pred_leaf": True}]
    kinds += [] if name.startswith("vector") else [{"pred_contribs": True}]
    expected = [model.predict(D, validate_features=False, **kind) for kind in kinds]
    for suffix in ("json", "ubj"):
        back = loaded(forest, tmp_path, suffix)
        for kind, answer in zip(kinds, expected, strict=True):
            got = back.predict(D, validate_features=False, **kind)
            np.testing.assert_array_equal(got, answer)
        assert back.num_boosted_rounds() == model.num_boosted_rounds()
        again = convert(tmp_path / f"model.{suffix}")
        assert plain(to_document(again)) == plain(to_document(forest))


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_load_what_is_written(name: str, tmp_path: Path) -> None:
    model = trained(name)
    if name in SENTINELS:
        with pytest.raises(UnsupportedModelError, match="missing values that are NaN"):
            save(convert(model), tmp_path / "written.json")
        return
    saved = tmp_path / "saved.json"
    model.save_model(saved)
    X = small().X
    unsaved = {
        key: value
        for key, value in model.get_params().items()
        if key in ("missing", "feature_types", "enable_categorical")
    }
    for source in (model, saved):
        path = save(convert(source), tmp_path / "written.json")
        back = type(model)(**unsaved)
        back.load_model(path)
        np.testing.assert_array_equal(back.predict(X), model.predict(X))
        assert (
            to_document(convert(path))["learner"]["attributes"]
            == (to_document(convert(source))["learner"]["attributes"])
        )
    if name.startswith("stopped"):
        assert back.get_booster().num_boosted_rounds() == model.best_iteration + 1


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_names_types_and_code_books_survive_writing(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    model, frame = of_frame()
    forest = convert(model)
    assert forest.inputs.categories is not None
    path = save(forest, tmp_path / f"model.{suffix}")
    assert convert(path).inputs == forest.inputs
    back = xgb.XGBRegressor()
    back.load_model(path)
    assert back.get_booster().feature_types == ["c", "float", "c"]
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))


def test_a_retrained_forest_predicts_in_xgboost_what_bitvec_predicts(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    X, y = datasets.load_diabetes(return_X_y=True)
    X = X.astype(np.float32)
    model = xgb.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1).fit(X[:300], y[:300])
    forest = convert(model)
    module = bitvec.to_torch(forest, "sigmoid", trainable=("b",))
    with torch.no_grad():
        module.b += 0.01
    moved = bitvec.retrain(
        bitvec.from_torch(module),
        X[:300],
        y[:300],
        validation=(X[:300], y[:300]),
        trainable=("v",),
    ).forest
    assert not np.array_equal(moved.leaves.v, forest.leaves.v)
    assert not np.array_equal(moved.tests.b, forest.tests.b)
    back = loaded(moved, tmp_path)
    np.testing.assert_array_equal(margins(back, X, moved), reference.raw(moved, X))
    np.testing.assert_array_equal(
        back.predict(xgb.DMatrix(X, nthread=1)), bitvec.compile(moved).predict(X)
    )


@pytest.mark.parametrize(
    "name", ["dart", "sets, logistic", "forests of classes", POISSON, "vectors"]
)
@pytest.mark.parametrize("base_first", [True, False])
def test_moved_thresholds_leaves_and_base_scores_are_written(
    name: str, base_first: bool, tmp_path: Path
) -> None:
    forest = convert(trained(name))
    rng = np.random.default_rng(0)
    # Few margins near 0 are those of a probability, so that constant trees are needed too.
    for base in (0.0123456, 3.75, -40.0, 1e-20, 0.0):
        output = replace(
            forest.output,
            base_score=base * np.arange(1, forest.n_outputs + 1, dtype=np.float32),
            base_first=base_first,
        )
        moved = replace(
            forest,
            tests=replace(
                forest.tests, b=forest.tests.b + rng.normal(size=forest.n_nodes).astype(np.float32)
            ),
            leaves=replace(forest.leaves, v=forest.leaves.v * np.float32(np.pi)),
            output=output,
        )
        back = loaded(moved, tmp_path)
        np.testing.assert_array_equal(
            margins(back, hard_rows(), moved), reference.raw(moved, hard_rows())
        )
        again = convert(tmp_path / "model.ubj")
        assert plain(to_document(again)) == plain(to_document(moved))


@st.composite
def holdable(draw: st.DrawFn) -> tuple[Forest, Array]:
    """Forests of every shape that xgboost can hold, made so where they are not yet."""
    forest = draw(
        forests(
            kinds=draw(st.sampled_from([(AXIS,), (AXIS, SET)])),
            dtypes=(np.float32,),
            missing_rules=(MissingRule.NAN,),
            aggregates=(Aggregate.SUM,),
            linear=False,
        )
    )
    tests, output, leaf_ptr = forest.tests, forest.output, forest.bitvectors.leaf_ptr
    is_set = tests.kind == Kind.SET
    b = tests.b.copy()
    b[np.isposinf(b) & (tests.relation == Relation.GREATER)] = 0.5
    words = tests.set_words.copy()
    first = tests.set_ptr[:-1][np.diff(tests.set_ptr) > 0]
    words[first] = words[first] & ~np.uint32(2) | np.uint32(4)  # some codes right, some left
    kind = np.where(is_set & (np.diff(tests.set_ptr) == 0), Kind.MARGIN, tests.kind)
    named = forest.leaves.output
    if named is not None:
        named = np.repeat(named[leaf_ptr[:-1]], np.diff(leaf_ptr))
    narrow = {
        name: None if (value := getattr(output, name)) is None else value.astype(np.float32)
        for name in ("tree_weight", "base_score")
    }
    transforms = ["identity", "sigmoid", "exponential", "hinge"]
    transform = draw(st.sampled_from([*transforms, *(["softmax"] * (forest.n_outputs > 1))]))
    forest = replace(
        forest,
        tests=replace(
            tests,
            b=b,
            set_words=words,
            kind=kind.astype(np.uint8),
            code_rule=np.full(tests.n_nodes, CodeRule.FLOOR, np.uint8),
        ),
        leaves=Leaves(forest.leaves.v.astype(np.float32), named),
        output=replace(
            output,
            dtype=np.dtype(np.float32),
            post_transform=PostTransform(transform),
            parameter=1.0,
            scale=None,
            classes=None,
            **narrow,
        ),
    )
    return forest, draw(rows(forest))


def assert_predicts(forest: Forest, X: Array, folder: Path) -> None:
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    path = save(forest, folder / "model.ubj")
    expected = reference.raw(forest, X)
    again = convert(path)
    np.testing.assert_array_equal(reference.raw(again, X), expected)
    allowed = X[~np.any(np.isinf(X), axis=1)]  # xgboost refuses infinities
    if len(allowed):
        back = xgb.Booster({"nthread": 1}, model_file=path)
        np.testing.assert_array_equal(
            margins(back, allowed, forest), reference.raw(forest, allowed)
        )
        ids = back.predict(xgb.DMatrix(allowed, nthread=1), pred_leaf=True).reshape(
            len(allowed), -1
        )
        exits = reference.exit_leaves(again, allowed) + again.bitvectors.leaf_ptr[:-1]
        assert again.source is not None
        assert again.source.leaf_id is not None
        np.testing.assert_array_equal(again.source.leaf_id[exits], ids)
    # Leaves are mirrored below sets that change sides; constant trees stand first or last.
    again_trees = slice(again.n_trees - forest.n_trees, None)
    if not forest.output.base_first:
        again_trees = slice(0, forest.n_trees)
    if not np.any((forest.tests.kind == Kind.SET) & forest.tests.other_right):
        np.testing.assert_array_equal(
            reference.exit_leaves(again, X)[:, again_trees], reference.exit_leaves(forest, X)
        )
    assert plain(to_document(again)) == plain(to_document(forest))


@given(holdable())
def test_any_forest_that_can_be_held_predicts_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Forest, Array]
) -> None:
    assert_predicts(*case, tmp_path_factory.getbasetemp())


@given(forests(), st.data())
def test_any_forest_is_refused_or_predicts_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, forest: Forest, case: st.DataObject
) -> None:
    X = case.draw(rows(forest))
    try:
        assert_predicts(forest, X, tmp_path_factory.getbasetemp())
    except UnsupportedModelError as error:
        assert "xgboost must have" in str(error)  # noqa: PT017


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_texts_of_numbers_read_back_to_the_same_bits(values: list[float]) -> None:
    numbers = np.array(values, np.float32)
    read = json.loads(base_scores.text(numbers))
    assert np.array_equal(np.resize(np.array(read, np.float32), numbers.size), numbers)


@pytest.mark.parametrize("name", ["reg:squarederror", "binary:logistic", "count:poisson"])
def test_a_base_score_is_found_for_each_margin_that_has_one(name: str) -> None:
    objective = OBJECTIVES[name]
    rng = np.random.default_rng(0)
    for score in rng.uniform(1e-3, 1 - 1e-3, 300).astype(np.float32):
        margin = np.array([objective.margin(score)])
        found = base_scores.scores_of(objective, margin)
        assert found is not None
        assert objective.margin(found[0]) == margin[0]


def test_the_document_is_of_the_oldest_version_that_holds_the_forest() -> None:
    for name, version in (
        (PLAIN, [1, 7, 0]),
        ("sets", [1, 7, 0]),
        ("vectors", [3, 1, 0]),
        ("sets, targets", [3, 1, 0]),
    ):
        assert to_document(convert(trained(name)))["version"] == version
    forest = convert(train(Model({**VECTORS, "base_score": 0.5}, "targets")))
    assert to_document(forest)["version"] == [2, 0, 0]


def test_a_file_is_json_or_ubjson_by_its_suffix_and_appears_whole(tmp_path: Path) -> None:
    forest = convert(trained(PLAIN))
    for suffix in ("json", "ubj", "UBJ"):
        path = save(forest, tmp_path / f"model.{suffix}")
        assert files.identical(convert(path), convert(tmp_path / "model.json"))
    assert plain(parse((tmp_path / "model.ubj").read_bytes())) == plain(to_document(forest))
    assert json.loads((tmp_path / "model.json").read_text())["version"] == [1, 7, 0]
    with pytest.raises(InputError, match=r"must end in \.json or \.ubj"):
        save(forest, tmp_path / "model.model")
    assert len([*tmp_path.iterdir()]) == 3


def test_damaged_metadata_is_not_believed(tmp_path: Path) -> None:
    forest = convert(trained("both"))
    assert forest.source is not None
    X = hard_rows()
    for metadata in (
        {},
        {"learner": 3},
        {"learner": {"attributes": [1], "feature_types": "ccqq", "gradient_booster": {"model": 0}}},
        {"learner": {"learner_model_param": {"base_score": "[" * 9999, "num_class": "x"}}},
        {"learner": {"learner_model_param": {"base_score": "0.125"}, "objective": {"name": 3}}},
    ):
        edited = replace(forest, source=replace(forest.source, metadata=metadata))
        np.testing.assert_array_equal(
            margins(loaded(edited, tmp_path), X, edited), reference.raw(forest, X)
        )
    ids = forest.source.leaf_id
    for leaf_id in (ids * 2**40, -ids, np.zeros_like(ids)):
        edited = replace(forest, source=replace(forest.source, leaf_id=leaf_id))
        np.testing.assert_array_equal(
            margins(loaded(edited, tmp_path), X, edited), reference.raw(forest, X)
        )


@pytest.mark.parametrize(
    "value", [None, True, [1, -1, 300, -40000, 2**40, 0.1, 0.5, "ä"], {}, [[], {"a": np.nan}]]
)
def test_ubjson_reads_back_what_is_written(value: Any) -> None:
    np.testing.assert_equal(ubjson.parse(ubjson.encode(value)), value)


@given(holdable())
def test_a_right_child_comes_right_behind_its_left_one(case: tuple[Forest, Array]) -> None:
    """xgboost finds it there, whatever `right_children` says, and walks out of the tree else."""
    document = to_document(case[0])
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        left, right = tree["left_children"], tree["right_children"]
        np.testing.assert_array_equal(right[left >= 0], left[left >= 0] + 1)


def refused(name: str) -> Forest:
    forest = convert(trained("both"))
    tests, output = forest.tests, forest.output
    every = np.ones(tests.n_nodes, np.uint8)
    is_set = tests.kind == Kind.SET
    empty = np.where(is_set, 0, 1)
    changes: dict[str, dict[str, Any]] = {
        "missing values that are NaN": {
            "tests": replace(tests, missing_rule=every * np.uint8(MissingRule.NAN_OR_ZERO))
        },
        "x > inf": {
            "tests": replace(
                tests,
                b=np.where(is_set, 0, np.inf).astype(np.float32),
                relation=every * np.uint8(Relation.GREATER),
            )
        },
        "rounded down": {"tests": replace(tests, code_rule=every * np.uint8(CodeRule.EXACT))},
        "sets that name some code": {
            "tests": replace(tests, set_words=tests.set_words * np.uint32(empty.min()))
        },
        "a sum of trees": {"output": replace(output, aggregate=Aggregate.MAX, base_first=False)},
        "objective of the post-transform": {
            "output": replace(output, post_transform=PostTransform.SIGNED_SQUARE)
        },
        "base score of float32": {
            "output": replace(output, base_first=False, base_score=np.array([0.1]))
        },
        "feature names without": {
            "inputs": replace(forest.inputs, feature_names=("a", "b[1]", "c", "d"))
        },
        "one column": {"tests": replace(tests, kind=every * np.uint8(Kind.EQUAL))},
    }
    return replace(forest, **changes[name])


@pytest.mark.parametrize(
    "name",
    [
        "missing values that are NaN",
        "x > inf",
        "rounded down",
        "sets that name some code",
        "a sum of trees",
        "objective of the post-transform",
        "base score of float32",
        "feature names without",
        "one column",
    ],
)
def test_what_xgboost_cannot_hold_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnsupportedModelError, match=name):
        to_document(refused(name))


def test_forests_that_average_in_float64_are_refused_with_every_reason() -> None:
    from sklearn.ensemble import RandomForestRegressor

    forest = bitvec.convert(
        RandomForestRegressor(2, random_state=0).fit(*datasets.load_diabetes(return_X_y=True))
    )
    with pytest.raises(UnsupportedModelError, match=r"summed in float32.*a sum of trees"):
        to_document(forest)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_what_a_ranking_knows_of_positions_survives_writing(suffix: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    data = xgb.DMatrix(X, X[:, 0] > 0, qid=np.repeat(np.arange(10), 20))
    options = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "nthread": 1}
    model = xgb.train(options, data, 3)
    again = xgb.Booster(model_file=save(convert(model), tmp_path / f"model.{suffix}"))
    assert np.array_equal(again.predict(data), model.predict(data))
    more = [xgb.train(options, data, 2, xgb_model=one).predict(data) for one in (model, again)]
    assert np.array_equal(*more)
