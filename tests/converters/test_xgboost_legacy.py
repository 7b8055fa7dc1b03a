"""Laws of the old binary format: it converts to what the same model converts to as JSON."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xgboost_binary import N_FEATURES, binary, header, text

from bitvec.converters.xgboost import legacy
from bitvec.converters.xgboost.format import is_xgboost_binary
from bitvec.converters.xgboost.oracle import oracle_of
from bitvec.converters.xgboost.read import convert
from bitvec.core import reference
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError

pytest.importorskip("xgboost")

from tests.models.samples import around, small
from tests.models.xgboost import MODELS as CATALOGUE
from tests.models.xgboost import Model, train, trained


def rows() -> np.ndarray:
    """A grid, its neighbours one ulp away, and missing values; some are thresholds."""
    grid = np.array([-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, np.nan], np.float32)
    return np.stack(np.meshgrid(grid[::2], grid, grid[::4]), axis=-1).reshape(-1, N_FEATURES)


# A logistic model with base_score 0.3 that xgboost 0.90 wrote, and the raw scores that xgboost
# 1.7.6, 2.1.4 and 3.0.5 alike give to `rows()`. (0.90 itself sums in another order.)
OF_0_90 = (
    b"c-m`z5wV|{0Rk8q1`hB;>7>lO#G*>8oc#36;*!i{HmGoVQb|#2Dl^oP%xIbi(&6atU`OIJ4+1y+2Lh10m>}E+Ale6_"
    b"L2hG#haFgqffb0^AYwpu4E7-UKNNuEgMzQwFhb3QiK+D--N%HcZh~yMJrkO`2BCYlZBB_!vu2)j{L%2r4s4$96NlLT"
    b"JjXLHUH60Cx5Ux$`eGGFz5|>NQ1>!?)7ay1WY#8In13Es2{?K!Sh63%f8yZlZ0rEz&zkA!kj1~#ZivJO1NQh>upccx"
    b"!0OQB!#~1nFM515&Df3+A4X!581XT&Nx+uv4Wkp=qmz!OEN6qmtHFDgz3&%U$Ma!r;P`lD7w5SDe5s>$)pUE9dm~+M"
    b"+P|5nu@C0@g{PSu#sANM$A|r4X2*Xj|Lx)4lYHVZ=jI37kq{qE6Vx!`W6t`e81d1#;DsG}d=!;mvZ-~N<@oc(ZpZbu"
    b"8Q}O3=&!L~x`)+K=~WImKEj^=ckmM}a^#tn2#=5bY*+0Mp5=na$1L+}4&g#w@c1aH`|BWf`yf0%)Ym+7=uBR3%YdT{"
    b"Wr5Op`6a0^u?hg$a{kN"
)
ANSWERS = b"c-kv<$=qLx1s^!uYL5+T9m=tT;Zh3p{?0kD9~-8%-pQI@_hZ9S{IRy!@C?pr`(YTDUcW9~tavc%CC0x1lSmVK"


def test_a_file_of_0_90_answers_as_the_versions_that_read_it(tmp_path: Path) -> None:
    path = tmp_path / "old.model"
    data = zlib.decompress(base64.b85decode(OF_0_90))
    expected = np.frombuffer(zlib.decompress(base64.b85decode(ANSWERS)), "<f4")
    for content in (data, legacy.MAGIC + data.removeprefix(legacy.MAGIC)):
        path.write_bytes(content)
        forest = convert(path)
        assert forest.n_trees == 3
        np.testing.assert_array_equal(reference.raw(forest, rows())[:, 0], expected)
        np.testing.assert_array_equal(oracle_of(path).raw(rows())[:, 0], expected)


def is_held(about: Model) -> bool:
    """Whether the old format holds it: one base score, and neither categories nor vectors."""
    vectors = about.n_bases == "vector" or "multi_strategy" in about.parameters
    return not about.categories and not vectors and about.parameters.get("base_score") != 0


MODELS = [name for name, about in CATALOGUE.items() if is_held(about)]


@pytest.mark.parametrize("name", MODELS)
def test_a_binary_model_is_its_json_twin(name: str, tmp_path: Path) -> None:
    model = trained(name)
    twin, path = tmp_path / "model.json", tmp_path / "model.bin"
    model.save_model(twin)
    path.write_bytes(binary(json.loads(twin.read_text())))
    forest, of_twin = convert(path), convert(twin)
    if name == "pruned":
        trees = json.loads(twin.read_text())["learner"]["gradient_booster"]["model"]["trees"]
        assert any(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    X = around(small().X.astype(np.float32))
    np.testing.assert_array_equal(reference.raw(forest, X), oracle_of(twin).raw(X))
    for part in ("tests", "bitvectors", "leaves", "output"):
        for field in getattr(forest, part).__dataclass_fields__:
            got, want = (getattr(getattr(f, part), field) for f in (forest, of_twin))
            np.testing.assert_equal(got, want, err_msg=f"{part}.{field}")
    source, of_source = forest.source, of_twin.source
    assert source is not None
    assert of_source is not None
    for field in ("model", "leaf_id", "node_id", "leaf_cover", "node_cover", "gain"):
        np.testing.assert_equal(getattr(source, field), getattr(of_source, field))
    assert source.version == "3.0.0"


@pytest.mark.parametrize("name", MODELS)
def test_the_library_reads_a_binary_model_through_its_document(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    document = json.loads(
        getattr(trained(name), "get_booster", lambda: trained(name))().save_raw("json")
    )
    path.write_bytes(binary(document))
    forest, oracle = convert(path), oracle_of(path)
    X = around(small().X.astype(np.float32))
    np.testing.assert_array_equal(reference.raw(forest, X), oracle.raw(X))
    if forest.n_trees:
        assert forest.source is not None
        assert forest.source.leaf_id is not None
        assert oracle.leaf_ids is not None
        exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
        np.testing.assert_array_equal(forest.source.leaf_id[exits], oracle.leaf_ids(X))


# What xgboost 1.7.6, 2.1.4 and 3.0.5 alike answer with a margin that a version of 0.x saved: it
# goes through the objective's link and back.
OLD_BASES = [
    ("binary:logistic", -0.0, "-0x0.0p+0"),
    ("binary:logistic", 0.3, "0x1.33333p-2"),
    ("binary:logistic", -1.7, "-0x1.b33334p+0"),
    ("binary:logistic", 9, "0x1.2001ep+3"),
    ("reg:logistic", 2.5, "0x1.3ffffep+1"),
    ("binary:logitraw", -0.8, "-0x1.99999ap-1"),
    ("count:poisson", 0.3, "0x1.333336p-2"),
    ("count:poisson", -2.1, "-0x1.0cccccp+1"),
    ("reg:gamma", 0.7, "0x1.666666p-1"),
    ("reg:tweedie", -0.4, "-0x1.99999ap-2"),
    ("survival:cox", 1.1, "0x1.19999ap+0"),
    ("binary:hinge", 0.3, "0x1p+0"),
    ("binary:hinge", -0.3, "0x0p+0"),
    ("reg:linear", 0.3, "0x1.333334p-2"),
    ("rank:pairwise", 0.5, "0x1p-1"),
]


@pytest.mark.parametrize(("objective", "saved", "expected"), OLD_BASES)
def test_a_base_score_before_1_0_is_a_margin(
    objective: str, saved: float, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "old.model"
    head = header(objective, base_score=saved, version=(0, 0))
    path.write_bytes(head + struct.pack("<ii152x", 0, 1))
    base = convert(path).output.base_score
    assert base is not None
    assert base.tobytes() == np.float32(float.fromhex(expected)).tobytes()  # -0.0 is not 0.0
    assert oracle_of(path).raw(rows()[:1]).tobytes() == base.tobytes()


def test_a_base_score_of_classes_is_never_a_margin(tmp_path: Path) -> None:
    path = tmp_path / "old.model"
    head = header("multi:softprob", base_score=0.7, n_classes=3, version=(0, 0))
    path.write_bytes(head + struct.pack("<ii152x", 0, 1))
    np.testing.assert_array_equal(convert(path).output.base_score, np.full(3, 0.7, np.float32))


def test_the_document_holds_what_json_holds_besides_the_trees(tmp_path: Path) -> None:
    document = json.loads(trained("count:poisson, base score estimated").save_raw("json"))
    document["learner"]["attributes"] = {"note": "a \u00e4"}
    path = tmp_path / "model.bin"
    path.write_bytes(binary(document))
    source = convert(path).source
    assert source is not None
    learner = json.loads(json.dumps(source.metadata))["learner"]
    assert learner["attributes"] == {"note": "a \u00e4"}
    assert learner["objective"] == document["learner"]["objective"]
    assert learner["gradient_booster"]["name"] == "gbtree"
    assert learner["learner_model_param"]["num_feature"] == "4"
    given = learner["learner_model_param"]["base_score"]
    (expected,) = json.loads(document["learner"]["learner_model_param"]["base_score"])
    assert np.float32(given) == np.float32(expected)


SMALL = binary(json.loads(train(Model(rounds=2), max_depth=2).save_raw("json")))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    for stop in range(0, len(SMALL), 7):
        path.write_bytes(SMALL[:stop])
        with pytest.raises(FileFormatError, match=r"cut\.bin: .*must"):
            convert(path)


def test_what_follows_the_attributes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    answers = []
    for content in (SMALL, SMALL + text("rmse")):
        path.write_bytes(content)
        answers.append(reference.raw(convert(path), small().X.astype(np.float32)))
    np.testing.assert_array_equal(*answers)


def at(offset: int, layout: str, *values: Any) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(layout, data, offset, *values)


FOREST = 4 + 136 + 8 + len("reg:squarederror") + 8 + len("gbtree")
TREE = FOREST + 160
NODES = TREE + 148
HOSTILE: dict[str, Callable[[bytearray], None]] = {
    "huge objective": at(140, "<Q", 2**63),
    "objective that is no text": at(148, "<I", 0xFFFFFFFF),
    "unknown objective": at(148, "<4s", b"reg_"),
    "a linear booster": at(FOREST - 6, "<6s", b"gbline"),
    "negative number of classes": at(12, "<i", -1),
    "huge number of classes": at(12, "<i", 2**31 - 1),
    "negative number of trees": at(FOREST, "<i", -1),
    "huge number of trees": at(FOREST, "<i", 2**31 - 1),
    "fewer trees": at(FOREST, "<i", 1),
    "negative forests": at(FOREST + 4, "<i", -1),
    "two roots": at(TREE, "<i", 2),
    "no nodes": at(TREE + 4, "<i", 0),
    "negative nodes": at(TREE + 4, "<i", -1),
    "huge number of nodes": at(TREE + 4, "<i", 2**31 - 1),
    "one node more": at(TREE + 4, "<i", 8),
    "deleted nodes that are not": at(TREE + 8, "<i", 1),
    "vector leaves": at(TREE + 20, "<i", 3),
    "child out of range": at(NODES + 4, "<i", 10**6),
    "child below -1": at(NODES + 8, "<i", -2),
    "cycle": at(NODES + 4, "<i", 0),
    "shared child": at(NODES + 4, "<i", 2),
    "feature out of range": at(NODES + 12, "<I", 4),
    "NaN threshold": at(NODES + 16, "<f", np.nan),
    "NaN base score": at(4, "<f", np.nan),
    "no features": at(8, "<I", 0),
    "huge number of features": at(8, "<I", 2**32 - 1),
}


@pytest.mark.parametrize("edit", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_in_one_sentence(
    edit: Callable[[bytearray], None], tmp_path: Path
) -> None:
    data = bytearray(SMALL)
    path = tmp_path / "hostile.bin"
    edit(data)
    path.write_bytes(data)
    with pytest.raises(
        (FileFormatError, InvalidForestError, UnsupportedModelError), match=r"hostile\.bin: .*must"
    ) as caught:
        convert(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_the_format_is_told_by_magic_or_by_the_objective() -> None:
    assert is_xgboost_binary(SMALL[:256])
    assert is_xgboost_binary(SMALL.removeprefix(legacy.MAGIC)[:256])
    for other in (b"", b"tree\n", b'{"learner": 1}' + b" " * 200, bytes(400), b"\x80\x04" * 200):
        assert not is_xgboost_binary(other)
