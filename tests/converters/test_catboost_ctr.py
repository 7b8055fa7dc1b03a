"""Laws of CatBoost's statistics of categories (CTR): the forest answers frames bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitvec
from bitvec.cli.summary import summary
from bitvec.converters.catboost.ctr_walker import exceeds
from bitvec.converters.catboost.model_features import wide
from bitvec.converters.catboost.read import convert
from bitvec.core.city_hash import category_hash, text_with_hash
from bitvec.core.feature_maps.key_tables import Part
from bitvec.core.reference import columns
from bitvec.errors import BitvecError, FileFormatError, InputError, UnsupportedModelError
from bitvec.verify.certificates.digest import forest_digest
from bitvec.verify.probing import probe_rows
from bitvec.verify.probing.found_rows import walk
from bitvec.verify.probing.probe_targets import Outcome

cb = pytest.importorskip("catboost")

from tests.models.catboost import (  # noqa: E402
    CTR_MODELS,
    QUIET,
    Model,
    ctr,
    train,
    with_categories,
)

DATA = with_categories()
NAMES = ["weight", "shop", "day", "kind", "price", "side"]


@cache
def trained(name: str) -> Any:
    return train(CTR_MODELS[name], DATA)


def asked(seed: int = 0) -> pd.DataFrame:
    """Rows of training, with unseen categories, missing numbers and numbers near thresholds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(DATA.X, columns=NAMES).astype(
        {"weight": float, "day": int, "price": float}
    )
    for column, other in {"shop": "shop 99", "day": 10**9, "kind": "unseen", "side": "up"}.items():
        frame.loc[rng.random(len(frame)) < 0.1, column] = other
    frame.loc[rng.random(len(frame)) < 0.1, ["weight", "price"]] = np.nan
    return frame


def at_borders(forest: bitvec.Forest, frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows with numbers on the forest's thresholds and one ulp beside them, in float64."""
    tests, frame = forest.tests, frame.copy()
    for column in (0, 4):
        b = tests.b[(tests.feature == column) & (tests.kind == 0)]
        values = np.concatenate(
            [b, np.nextafter(b, np.inf), np.nextafter(b, -np.inf), [np.inf, 1e300]]
        )
        frame[NAMES[column]] = np.resize(values, len(frame))
    return frame


def require_equal(forest: bitvec.Forest, model: Any, frame: pd.DataFrame) -> None:
    predictor = bitvec.compile(forest)
    raw = predictor.decision_function(frame)
    np.testing.assert_array_equal(
        np.asarray(raw).ravel(),
        cb.CatBoost.predict(model, frame, prediction_type="RawFormulaVal").ravel(),
    )
    np.testing.assert_array_equal(
        predictor.apply(frame).ravel(), model.calc_leaf_indexes(frame).ravel()
    )


@pytest.mark.parametrize("name", CTR_MODELS)
def test_raw_scores_and_leaves_are_catboosts(name: str) -> None:
    model = trained(name)
    forest = convert(model)
    assert forest.feature_map is not None
    require_equal(forest, model, asked())
    require_equal(forest, model, at_borders(forest, asked(1)))


def test_the_models_hold_each_part_of_a_key_and_three_columns() -> None:
    tables = [t for name in CTR_MODELS for t in convert(trained(name)).feature_map.maps[1].tables]
    assert {int(kind) for table in tables for kind in table.kind} == set(Part)
    assert max(int((table.kind == Part.WHOLE).sum()) for table in tables) >= 3


@pytest.mark.parametrize("name", ["MultiClass as it is", "Borders of RMSE, 4 columns"])
@pytest.mark.parametrize("suffix", ["json", pytest.param("cbm", marks=pytest.mark.full)])
def test_files_are_the_object(name: str, suffix: str, tmp_path: Path) -> None:
    model, path = trained(name), tmp_path / f"m.{suffix}"
    model.save_model(str(path), format=suffix)
    require_equal(convert(path), model, asked())


def test_a_saved_forest_is_the_same(tmp_path: Path) -> None:
    forest, path = convert(trained("MultiClass as it is")), tmp_path / "m.safetensors"
    bitvec.save(forest, path)
    again = bitvec.load(path)
    assert forest_digest(again) == forest_digest(forest)
    require_equal(again, trained("MultiClass as it is"), asked())
    table = forest.feature_map.maps[1].tables[0]
    assert table.value.dtype == np.float32
    assert table.key.dtype == np.uint64


@pytest.mark.parametrize("engine", ["reference", "numba", "torch"])
def test_engines_agree(engine: str) -> None:
    if engine == "torch":
        pytest.importorskip("torch")
    forest = convert(trained("Logloss as it is"))
    predictor, frame = bitvec.compile(forest, engine=engine), asked()
    wanted = trained("Logloss as it is").predict(frame, prediction_type="RawFormulaVal")
    for n_rows in (0, 1, 3, len(frame)):
        np.testing.assert_array_equal(
            predictor.decision_function(frame[:n_rows]).ravel(), wanted[:n_rows]
        )


@pytest.mark.parametrize(
    "kind", ["object", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("cbm", "json"))]
)
def test_a_certificate_is_proved(kind: str, tmp_path: Path) -> None:
    model: Any = trained("Buckets of MultiClass, 4 columns")
    if kind != "object":
        path = tmp_path / f"m.{kind}"
        model.save_model(str(path), format=kind)
        model = path
    certificate = bitvec.certify(convert(model), model, asked() if kind == "object" else None)
    assert certificate.passed
    assert certificate.grade == "proved"


SOME = ("Buckets of Logloss, 4 columns", "Borders of RMSE, 4 columns", "Depthwise MultiClass")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SOME else pytest.mark.full) for n in CTR_MODELS]
)
def test_each_node_is_shown_on_both_sides_or_proved_to_have_one(name: str) -> None:
    model = trained(name)
    forest = convert(model)
    for X in (asked(), None):
        certificate = bitvec.certify(forest, model, X)
        assert certificate.passed
        assert certificate.coverage == 1
        assert certificate.n_leaf_mismatches == 0


@pytest.mark.parametrize("name", SOME)
def test_no_combination_of_categories_reaches_what_is_called_out_of_reach(name: str) -> None:
    forest = convert(trained(name))
    tests, pools = forest.tests, []
    for column, values in enumerate(DATA.X.T):
        if column in DATA.categorical:
            pools.append([*map(category_hash, {*values.tolist(), "unseen"})])
        else:
            of_parts = [
                table.b[(table.column == column) & (table.kind != Part.WHOLE)]
                for table in forest.feature_map.maps[1].tables
            ]
            b = np.unique(np.concatenate([tests.b[tests.feature == column], *of_parts]))
            pools.append([-np.inf, *np.nextafter(b, np.inf).tolist(), np.nan])
    coverage = probe_rows(forest).collect()[1]
    assert not coverage.reachable.all()
    rows = product(*pools)
    while block := [*islice(rows, 1 << 14)]:
        X = np.array(block, np.float64)
        for _, node, goes_right in walk(forest, columns(forest, X)):
            assert coverage.reachable[node].all()
            side = np.where(goes_right, int(Outcome.RIGHT), int(Outcome.LEFT))
            assert np.all(coverage.needed[node] & side)


def _moved(forest: bitvec.Forest, *, entry: bool) -> bitvec.Forest:
    """Return a forest in which one entry of a table lies beyond a threshold, or this before it."""
    maps, b = forest.feature_map.maps, forest.tests.b.copy()
    places = [(t, at) for t, own in enumerate(maps[1].tables) for at in range(own.default.size)]
    for node, column in enumerate(forest.tests.feature.tolist()):
        if column < maps[0].n_features:
            continue
        t, at = places[column - maps[0].n_features]
        value = maps[1].tables[t].value.copy()
        beyond = np.flatnonzero(value[:, at] > b[node])
        if 0 < beyond.size < len(value):
            break
    if entry:
        value[beyond[0], at] = value[:, at].min()
    else:
        b[node] = value[beyond, at].min()
    tables = [*maps[1].tables]
    tables[t] = replace(tables[t], value=value)
    phi = replace(forest.feature_map, maps=(maps[0], replace(maps[1], tables=tuple(tables))))
    return replace(forest, feature_map=phi, tests=replace(forest.tests, b=b))


@pytest.mark.parametrize("name", ["Borders of RMSE, 1 columns", "Depthwise MultiClass"])
@pytest.mark.parametrize("entry", [True, False])
def test_no_forest_with_another_entry_or_threshold_passes(name: str, entry: bool) -> None:
    model = trained(name)
    certificate = bitvec.certify(_moved(convert(model), entry=entry), model)
    assert not certificate.passed
    assert certificate.grade != "proved"


def test_a_proof_tells_another_table_from_the_source(tmp_path: Path) -> None:
    model = trained("Counter of RMSE, 1 columns")
    forest = convert(model)
    tables = forest.feature_map.maps[1]
    first = tables.tables[0]
    value = first.value.copy()
    value[0, 0] = np.nextafter(value[0, 0], np.float32(np.inf))
    changed = (replace(first, value=value), *tables.tables[1:])
    other = replace(
        forest.feature_map, maps=(forest.feature_map.maps[0], replace(tables, tables=changed))
    )
    wrong = replace(forest, feature_map=other)
    assert forest_digest(wrong) != forest_digest(forest)
    assert bitvec.certify(wrong, model).grade != "proved"


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-3, 3),
)
def test_a_wide_border_is_where_the_nearest_float32_exceeds_it(border: float, ulps: int) -> None:
    b = np.array([border], np.float32)
    x = wide(b)[0]
    assert x == exceeds(border)
    for _ in range(abs(ulps)):
        x = np.nextafter(x, np.copysign(np.inf, ulps))
    with np.errstate(over="ignore"):
        assert (x > wide(b)[0]) == (np.float32(x) > b[0])


@pytest.mark.parametrize(
    ("trained_as", "renamed"),
    [("BinarizedTargetMeanValue", "FloatTargetMeanValue"), ("Counter", "FeatureFreq")],
)
def test_types_that_graphics_cards_train_are_read(
    trained_as: str, renamed: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    trained(f"{trained_as} of RMSE, 4 columns").save_model(str(path), format="json")
    path.write_text(path.read_text().replace(trained_as, renamed))
    require_equal(convert(path), trained(f"{trained_as} of RMSE, 4 columns"), asked())


def test_sums_that_catboost_misreads_in_json_are_read_but_not_asked_for(tmp_path: Path) -> None:
    model, path = trained("BinarizedTargetMeanValue of RMSE, 1 columns"), tmp_path / "m.json"
    model.save_model(str(path), format="json")
    assert not np.array_equal(
        cb.CatBoost().load_model(str(path), "json").predict(DATA.X), model.predict(DATA.X)
    )
    forest = convert(path)
    require_equal(forest, model, asked())
    with pytest.raises(UnsupportedModelError, match="not whole"):
        bitvec.certify(forest, path)
    assert bitvec.certify(forest, model).passed


def test_texts_of_one_hash_are_one_category() -> None:
    model, frame = trained("Logloss as it is"), asked()
    frame["shop"] = frame["shop"].map(lambda text: text_with_hash(category_hash(text)))
    assert (frame["shop"] != asked()["shop"]).all()
    require_equal(convert(model), model, frame)


def test_an_array_holds_hashes_or_the_categories_themselves() -> None:
    model = trained("Logloss as it is")
    forest = convert(model)
    predictor, frame = bitvec.compile(forest), asked()
    wanted = model.predict(frame, prediction_type="RawFormulaVal")
    rows = predictor.rows(frame)
    assert rows[:, 1].tolist() == [category_hash(text) for text in frame["shop"]]
    for X in (rows, frame.to_numpy(object), frame.to_numpy(object).tolist()):
        np.testing.assert_array_equal(predictor.decision_function(X).ravel(), wanted)
    with pytest.raises(InputError, match="float64"):
        predictor.predict(rows.astype(np.float32))
    with pytest.raises(InputError, match="whole numbers"):
        predictor.predict(frame.assign(day=frame["day"] + 0.5))
    codes = rows.copy()
    codes[:, 2] = frame["day"]
    with pytest.warns(UserWarning, match=r"below 65536 in columns \[2\]"):
        predictor.predict(codes)
    rows[:, 1] = np.nan
    unseen = predictor.decision_function(frame.assign(shop=text_with_hash(0)))
    np.testing.assert_array_equal(predictor.decision_function(rows), unseen)


def test_whole_numbers_in_an_array_are_categories() -> None:
    Z = DATA.X[:, [2, 2]].astype(int)
    Z[:, 0] = np.arange(len(Z)) % 5
    y = (Z[:, 1] % 3 == 1) + Z[:, 0] / 4
    model = cb.CatBoostRegressor(**{**QUIET, "one_hot_max_size": 2}, cat_features=[0, 1]).fit(Z, y)
    predictor = bitvec.compile(convert(model))
    for X in (Z, Z.tolist(), Z.astype(object)):
        np.testing.assert_array_equal(predictor.predict(X), model.predict(Z))


@pytest.mark.parametrize("loss", ["MultiRMSE", "MultiLogloss"])
def test_statistics_of_several_targets_are_refused(loss: str) -> None:
    model = train(Model(loss, {"one_hot_max_size": 2}), DATA)
    with pytest.raises(UnsupportedModelError, match=f"one target.*{loss}"):
        convert(model)
    counted = train(ctr("Counter", loss, 1), DATA)
    forest = convert(counted)
    assert forest.feature_map is not None
    require_equal(forest, counted, asked())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ctr") / "m.json"
    trained("Borders of Logloss, 4 columns").save_model(str(path), format="json")
    return path.read_text()


def _first(document: Any) -> Any:
    return document["features_info"]["ctrs"][0]


def _table(document: Any) -> Any:
    return document["ctr_data"][_first(document)["identifier"]]


def _split(document: Any) -> Any:
    splits = (split for tree in document["oblivious_trees"] for split in tree["splits"])
    return next(split for split in splits if split["split_type"] == "OnlineCtr")


UNKNOWN = {
    "no counts": lambda d: d.pop("ctr_data"),
    "a type": lambda d: _first(d).update(ctr_type="Median"),
    "a member": lambda d: _first(d).update(more=1),
    "a member of a table": lambda d: _table(d).update(more=1),
    "a split of no kind": lambda d: _split(d).update(split_type=[]),
    "an element of no kind": lambda d: _first(d)["elements"][0].update(combination_element={}),
    "an element": lambda d: _first(d)["elements"][0].update(combination_element="text"),
}
DAMAGED = {
    "another type than its table's": lambda d: _first(d).update(ctr_type="Buckets"),
    "no such table": lambda d: d["ctr_data"].pop(_first(d)["identifier"]),
    "a stride": lambda d: _table(d).update(hash_stride=7),
    "a stride of 1": lambda d: _table(d).update(hash_stride=1),
    "a key that is none": lambda d: _table(d)["hash_map"].__setitem__(0, "x"),
    "a key beyond 64 bits": lambda d: _table(d)["hash_map"].__setitem__(0, "9" * 30),
    "a key twice": lambda d: _table(d).update(hash_map=["7", 1, 2, "7", 1, 2]),
    "a negative count": lambda d: _table(d).update(hash_map=["7", -1, 2]),
    "part of a count": lambda d: _table(d).update(hash_map=["7", 0.5, 2]),
    "counts that overflow": lambda d: _table(d).update(hash_map=["7", 2**31 - 1, 2]),
    "a feature that is not there": lambda d: [
        one["elements"][0].update(cat_feature_index=9) for one in d["features_info"]["ctrs"]
    ],
    "no prior": lambda d: _first(d).update(prior_numerator=None),
    "borders that fall": lambda d: _first(d).update(borders=[2, 1]),
    "no target": lambda d: _first(d).update(target_border_idx=-1),
    "the border of a split": lambda d: _split(d).update(border=0.25),
    "the number of a split": lambda d: _split(d).update(split_index=10**6),
}


def _edited(saved: str, change: Any, folder: Path) -> Path:
    document = json.loads(saved)
    change(document)
    path = folder / "m.json"
    path.write_text(json.dumps(document))
    return path


def test_a_document_is_read_again_as_it_was(saved: str, tmp_path: Path) -> None:
    assert convert(_edited(saved, lambda document: None, tmp_path)).n_trees == 12


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_meanings_are_refused(name: str, saved: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError):
        convert(_edited(saved, UNKNOWN[name], tmp_path))


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused(name: str, saved: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError):
        convert(_edited(saved, DAMAGED[name], tmp_path))


REFUSES: dict[str, tuple[str, dict[str, str]]] = {
    "c": ("m.h", {}),
    "onnx": ("m.onnx", {}),
    "sql": ("m.sql", {"dialect": "duckdb"}),
    "lightgbm": ("m.txt", {}),
}


@pytest.mark.parametrize("target", REFUSES)
def test_what_cannot_hold_key_tables_names_them(target: str, tmp_path: Path) -> None:
    if target in ("onnx", "lightgbm"):
        pytest.importorskip(target)
    name, options = REFUSES[target]
    with pytest.raises(UnsupportedModelError, match=r"feature map|KeyTables"):
        bitvec.export(convert(trained("Logloss as it is")), tmp_path / name, **options)


def test_facts_name_the_map_and_the_columns_of_categories() -> None:
    facts = summary(convert(trained("Logloss as it is")))
    assert facts["feature_map"] == "Concatenate of Identity, KeyTables"
    assert facts["categorical_features"] == [1, 2, 3, 5]


def test_a_forest_of_hashes_needs_float64() -> None:
    forest = convert(trained("Logloss as it is"))
    with pytest.raises(BitvecError, match="float64"):
        forest.feature_map(np.zeros((2, 6), np.float32))
