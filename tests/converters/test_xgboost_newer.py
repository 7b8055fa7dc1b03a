"""Laws of files as xgboost 3.3, 3.4 and Spark write them, made of those that are written here."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bitvec
from bitvec.converters.xgboost.format import spark_prefix
from bitvec.converters.xgboost.oracle import oracle_of
from bitvec.converters.xgboost.read import convert
from bitvec.converters.xgboost.write import to_document
from bitvec.core import reference
from bitvec.errors import BitvecError, FileFormatError, UnsupportedModelError

xgb = pytest.importorskip("xgboost")

from tests.models.samples import small  # noqa: E402
from tests.models.xgboost import trained  # noqa: E402
from tests.xgboost_binary import Document, binary, weighted_model  # noqa: E402

Place = Callable[[Document, list[float]], Document]


def document(name: str, version: tuple[int, int, int]) -> Document:
    read: Document = json.loads(trained(name).save_raw("json"))
    return read | {"version": list(version)}


def written(changed: Document, folder: Path) -> Path:
    path = folder / "m.json"
    path.write_text(json.dumps(changed))
    return path


def beside_a_gbtree(model: Document, weights: list[float]) -> Document:
    """Up to 3.2: a dart, its weights beside the gbtree in it."""
    return {"name": "dart", "gbtree": {"name": "gbtree", "model": model}, "weight_drop": weights}


def beside_the_model(model: Document, weights: list[float]) -> Document:
    """3.3: a gbtree, its weights beside its model."""
    return {"name": "gbtree", "model": model, "weight_drop": weights}


def in_the_model(model: Document, weights: list[float]) -> Document:
    """3.4: the weights in its model."""
    return {"name": "gbtree", "model": model | {"weight_drop": weights}}


PLACES = (beside_a_gbtree, beside_the_model, in_the_model)


@pytest.mark.parametrize("name", ["dart", "dart of classes", "dart of forests"])
@pytest.mark.parametrize("place", PLACES)
def test_weights_of_trees_are_read_where_each_version_puts_them(
    name: str, place: Place, tmp_path: Path
) -> None:
    changed = document(name, (3, 4, 1))
    changed["learner"]["gradient_booster"] = place(*weighted_model(changed))
    forest, X = convert(written(changed, tmp_path)), small().X.astype(np.float32)
    assert forest.output.tree_weight is not None
    assert len(set(forest.output.tree_weight)) > 1
    wanted = oracle_of(trained(name)).raw(X)
    np.testing.assert_array_equal(reference.raw(forest, X), wanted)
    # Its weights stay apart from its leaves when it is written back.
    back = to_document(forest)
    kept, weights = (np.float32(weighted_model(read)[1]) for read in (back, changed))
    np.testing.assert_array_equal(kept, weights)


def test_weights_that_stand_twice_or_are_too_few_are_refused(tmp_path: Path) -> None:
    changed = document("dart", (3, 4, 1))
    model, weights = weighted_model(changed)
    twice = in_the_model(model, weights) | {"weight_drop": weights}
    changed["learner"]["gradient_booster"] = twice
    with pytest.raises(FileFormatError, match="twice"):
        convert(written(changed, tmp_path))
    changed["learner"]["gradient_booster"] = in_the_model(model, weights[1:])
    with pytest.raises(FileFormatError, match="as many trees"):
        convert(written(changed, tmp_path))


def test_an_expectile_is_the_raw_score_and_several_are_refused(tmp_path: Path) -> None:
    plain = document("approximate", (3, 4, 1))
    plain["learner"]["objective"] = {
        "name": "reg:expectileerror",
        "expectile_loss_param": {"expectile_alpha": "[3E-1]"},
    }
    forest, X = convert(written(plain, tmp_path)), small().X.astype(np.float32)
    np.testing.assert_array_equal(
        reference.raw(forest, X), oracle_of(trained("approximate")).raw(X)
    )
    assert forest.output.post_transform == "identity"
    several = document("targets", (3, 4, 1))
    several["learner"]["objective"] = plain["learner"]["objective"]
    with pytest.raises(UnsupportedModelError, match="adds the expectiles"):
        convert(written(several, tmp_path))


@pytest.mark.parametrize("version", [(3, 3, 0), (3, 4, 0)])
def test_several_quantiles_are_refused_since_they_are_sorted(
    version: tuple[int, int, int], tmp_path: Path
) -> None:
    several = document("targets", version)
    several["learner"]["objective"] = {
        "name": "reg:quantileerror",
        "quantile_loss_param": {"quantile_alpha": "[2E-1,5E-1,9E-1]"},
    }
    if version < (3, 4):
        assert convert(written(several, tmp_path)).n_outputs == 3
        return
    with pytest.raises(UnsupportedModelError, match=r"3\.4\.0 sorts the quantiles"):
        convert(written(several, tmp_path))


@pytest.mark.parametrize("suffix", ["json", "ubj", "bin"])
def test_what_spark_writes_before_a_model_is_passed_over(suffix: str, tmp_path: Path) -> None:
    model, path = (
        trained("binary:logistic, base score given"),
        tmp_path / "XGBoostClassificationModel",
    )
    document_of = json.loads(model.save_raw("json"))
    plain = binary(document_of) if suffix == "bin" else bytes(model.save_raw(suffix))
    path.write_bytes(struct.pack(">i", 3) + plain)
    forest = bitvec.convert(path)
    X = small().X.astype(np.float32)
    np.testing.assert_array_equal(reference.raw(forest, X), oracle_of(model).raw(X))
    if suffix == "json":
        assert bitvec.certify(forest, path).passed
    path.write_bytes(struct.pack(">i", 3) + b"nothing")
    with pytest.raises(BitvecError):
        bitvec.convert(path)


def test_the_base_score_of_an_old_file_is_no_prefix() -> None:
    assert spark_prefix(struct.pack("<f", 0.5) + b"\0" * 300) == 0
    assert spark_prefix(b"") == spark_prefix(b"\0\0") == 0
